"""Checks that type rules of several op families share, and symbolic sizes as plain numbers."""

from collections.abc import Collection, Sequence

from meganeura_dsl.ir.graph import Op, TypeRuleError
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size, evaluate

FLOATS = frozenset({DType.F32, DType.F16})
SIGNED = FLOATS | {DType.I32}
INTEGERS = frozenset({DType.I32, DType.U32})
NUMBERS = FLOATS | INTEGERS
ANYTHING = frozenset(DType)


def title(op: Op) -> str:
    """The name of an op as messages show it."""
    return f"`{type(op).__name__}`"


def require_dtype(op: Op, operand: TensorType, accepted: Collection[DType]) -> None:
    """The operand's element type is one of those accepted."""
    if operand.dtype not in accepted:
        names = " or ".join(dtype.value for dtype in DType if dtype in accepted)
        raise TypeRuleError(f"{title(op)} takes {names}, not {operand.dtype.value}")


def require_same_dtype(op: Op, left: TensorType, right: TensorType) -> None:
    """Both operands have one element type; nothing is promoted."""
    if left.dtype is not right.dtype:
        raise TypeRuleError(
            f"{title(op)} takes operands of one element type,"
            f" not {left.dtype.value} and {right.dtype.value}"
        )


def require_same_type(op: Op, facts: Facts, left: TensorType, right: TensorType) -> None:
    """Both operands have one element type and one shape; nothing is stretched."""
    require_same_dtype(op, left, right)
    if left.rank != right.rank:
        raise TypeRuleError(f"{title(op)} takes operands of one shape, not {left} and {right}")
    facts.require_same_shape(left.shape, right.shape, f"the operands of {title(op)} have one shape")


def require_axes(op: Op, axes: Sequence[int], rank: int) -> None:
    """The axes are sorted, without repetition, and exist."""
    if any(axis not in range(rank) for axis in axes) or sorted(set(axes)) != list(axes):
        shown = ", ".join(map(str, axes))
        raise TypeRuleError(f"{title(op)} has axes ({shown}), which {rank} axes do not allow")


def require_length(op: Op, name: str, sizes: Sequence[Size], length: int) -> None:
    """Raises `TypeRuleError` unless there is one number for each axis."""
    if len(sizes) != length:
        raise TypeRuleError(f"{title(op)} has {len(sizes)} numbers in `{name}` for {length} axes")


def require_at_least(op: Op, facts: Facts, name: str, sizes: Sequence[Size], least: int) -> None:
    """Every size is provably no smaller than `least`."""
    for size in sizes:
        if not isinstance(size, int) or size < least:
            reason = f"`{name}` of {title(op)} is at least {least}"
            facts.require(Compare(">=", size, least), reason)


def concrete(size: Size) -> int:
    """The number a size stands for; raises `ValueError` while something in it is symbolic."""
    try:
        return size if isinstance(size, int) else evaluate(size, {})
    except KeyError:
        raise ValueError(f"the size `{size}` is not known yet") from None


def concrete_shape(shape: Shape) -> tuple[int, ...]:
    """The numbers a shape stands for; raises `ValueError` while something in it is symbolic."""
    # Of every op that runs, so the usual case takes no call.
    return tuple([size if isinstance(size, int) else concrete(size) for size in shape])
