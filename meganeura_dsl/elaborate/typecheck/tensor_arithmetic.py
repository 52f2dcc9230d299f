"""Arithmetic on tensors. The one place where a smaller operand is broadcast, and how."""

import re
from collections.abc import Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.argument_cures import one_hot_cure, to_float
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import (
    ElementTypeMismatch,
    TypeRuleBroken,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck import powers
from meganeura_dsl.elaborate.typecheck.index_ranges import check_chosen
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted
from meganeura_dsl.elaborate.typecheck.matrix_products import matmul
from meganeura_dsl.elaborate.typecheck.shape_mismatches import shape_mismatch
from meganeura_dsl.elaborate.typecheck.tensor_values import broadcast, cast, equal, promoted, scalar
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    describe,
    is_number,
    is_size,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Proved
from meganeura_dsl.symbolic.size import Dim, product

ELEMENTWISE: dict[str, Op] = {
    "+": ops.Add(),
    "-": ops.Sub(),
    "*": ops.Mul(),
    "/": ops.Div(),
    "==": ops.Compare("eq"),
    "!=": ops.Compare("ne"),
    "<": ops.Compare("lt"),
    "<=": ops.Compare("le"),
    ">": ops.Compare("gt"),
    ">=": ops.Compare("ge"),
}

WHOLE: dict[str, type[ops.FloorDivide | ops.Remainder]] = {
    "//": ops.FloorDivide,
    "%": ops.Remainder,
}

ONE_VALUE = re.compile(r"[\w.]+(\([^()]*\)|\[[^\[\]]*\])?")
"""Pattern of a name, with a call or a subscript behind it."""


def elementwise(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """`left operator right` where at least one side is a tensor."""
    if operator == "@":
        return matmul(frame, span, left, right, names)
    if operator == "**":
        return power(frame, span, left, right, names)
    if operator in ("and", "or"):
        return connect(frame, span, operator, left, right, names)
    if operator in WHOLE:
        return divide_whole(frame, span, operator, left, right, names)
    return apply_pair(frame, span, ELEMENTWISE[operator], operator, left, right, names)


def divide_whole(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """`x // k` and `x % k` for a tensor of whole numbers and a size that is at least 1."""
    if is_tensor(left) and left.type.dtype.is_integer and is_size(right):
        return frame.add(span, WHOLE[operator](right), left)
    raise ProblemError(
        ElementTypeMismatch(
            frame.location(span),
            f"`{operator}` divides sizes, and tensors of whole numbers by sizes",
            f"{describe(left)} and {describe(right)}",
            _whole_division(operator, (left, right), names),
        )
    )


def _whole_division(
    operator: str, sides: tuple[ElabValue, ElabValue], names: tuple[str, str]
) -> str:
    """Returns advice for `//` or `%` of tensors.

    For whole numbers a half is added, so that a quotient that is a little too small, as a GPU's
    division may be, is not rounded down to the number below: floor(x / y) = floor((x + 1/2) / y).
    """
    is_float = all(not is_tensor(side) or side.type.dtype.is_float for side in sides)
    x, y = (name if name.isalnum() else f"({name})" for name in names)
    if is_float:
        quotient = f"floor({x} / {y})"
    else:
        x_float, y_float = (
            f"f32({name})" if is_tensor(side) else text
            for name, side, text in zip(names, sides, (x, y), strict=True)
        )
        quotient = f"i32(floor(({x_float} + 0.5) / {y_float}))"
    written = quotient if operator == "//" else f"{x} - {y} * {quotient}"
    return f"write `{written}`" + ("" if is_float else ", if the numbers are below 2 ** 22")


def apply_pair(
    frame: Frame,
    span: Span,
    op: Op,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """A binary op after both sides were brought to one shape."""
    a, b = of_one_type(frame, span, operator, left, right, names)
    kept = _without_zero(frame, op, a, b)
    a, b = align(frame, span, operator, (a, b), names)
    return frame.add(span, op, a, b) if kept is None else kept


def of_one_type(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> tuple[Tensor, Tensor]:
    """Both sides as tensors of one element type; raises `ProblemError` if there is none."""
    a, b = promoted(frame, span, *lift(frame, span, left, right))
    if a.type.dtype is not b.type.dtype:
        what = f"the two sides of `{operator}` have different element types"
        found = f"{names[0]}: {a.type}\n{names[1]}: {b.type}"
        problem = ElementTypeMismatch(frame.location(span), what, found)
        whole = [
            name
            for name, side in zip(names, (a, b), strict=True)
            if side.type.dtype in (DType.I32, DType.U32, DType.BOOL)
        ]
        if len(whole) == 1 and "\n" not in whole[0]:
            of_classes = one_hot_cure(whole[0], *((a, b) if whole[0] == names[0] else (b, a)))
            cure = of_classes or Help("convert it", f"f32({whole[0]})")
            problem = replace(problem, cure=cure)
        raise ProblemError(problem)
    return a, b


def _without_zero(frame: Frame, op: Op, a: Tensor, b: Tensor) -> Tensor | None:
    """The side of a sum whose other side is an optional tensor that was not given, and is 0."""
    neutral = frame.state.values.fill_values
    if isinstance(op, ops.Add | ops.Sub) and neutral.get(b.id) == 0 and a.type.rank >= b.type.rank:
        return a
    if isinstance(op, ops.Add) and neutral.get(a.id) == 0 and b.type.rank >= a.type.rank:
        return b
    return None


def lift(frame: Frame, span: Span, left: ElabValue, right: ElabValue) -> tuple[Tensor, Tensor]:
    """Both sides as tensors: a number takes the element type and shape of the other side."""
    left, right = (
        side if isinstance(side, Dim) else lifted(frame, span, side) for side in (left, right)
    )
    if is_tensor(left) and is_tensor(right):
        return left, right
    if is_tensor(left):
        return left, _like(frame, span, right, left)
    assert is_tensor(right)
    return _like(frame, span, left, right), right


def _like(frame: Frame, span: Span, value: ElabValue, other: Tensor) -> Tensor:
    dtype, shape = other.type.dtype, other.type.shape
    if (is_number(value) and dtype.is_float) or (is_size(value) and dtype.is_integer):
        return scalar(frame, span, value, dtype, shape)
    if isinstance(value, bool) and dtype is DType.BOOL:
        return scalar(frame, span, value, dtype, shape)
    fault = f"a tensor of {dtype.value} cannot meet {describe(value)}"
    problem = ElementTypeMismatch(frame.location(span), fault, str(other.type))
    cure = to_float([other], frame.names, span) if is_number(value) or is_size(value) else None
    raise ProblemError(problem if cure is None else replace(problem, cure=cure))


def align(
    frame: Frame, span: Span, operator: str, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> tuple[Tensor, Tensor]:
    """Two tensors brought to one shape: the one of fewer axes meets the other's trailing axes."""
    left, right = pair
    larger, smaller = (left, right) if left.type.rank >= right.type.rank else (right, left)
    offset = larger.type.rank - smaller.type.rank
    for axis, size in enumerate(smaller.type.shape):
        verdict = equal(frame, larger.type.shape[offset + axis], size)
        if not isinstance(verdict, Proved):
            raise ProblemError(
                shape_mismatch(frame, span, operator, pair, names, (axis + offset, axis, verdict))
            )
    shape = larger.type.shape
    axes = tuple(range(offset, larger.type.rank))
    if offset == 0:
        return left, right
    repeated = broadcast(frame, span, smaller, shape, axes)
    return (left, repeated) if larger is left else (repeated, right)


def power(
    frame: Frame, span: Span, left: ElabValue, right: ElabValue, names: tuple[str, str]
) -> Tensor:
    """`x ** y`: products, a root, or an exponential of a logarithm."""
    if not is_tensor(left) and not is_number(left) and not is_size(left):
        location = frame.location(span)
        raise ProblemError(WrongKind(location, "a number left of `**`", describe(left)))
    if is_tensor(left) and not left.type.dtype.is_float:
        what = "`**` takes floats on its left"
        problem = ElementTypeMismatch(frame.location(span), what, str(left.type))
        cure = to_float([left], frame.names, span)
        raise ProblemError(problem if cure is None else replace(problem, cure=cure))
    exponent = powers.number_of(right)
    if is_tensor(left) and exponent is not None and powers.is_exact(exponent):
        return powers.exact(frame, span, left, exponent)
    if not is_tensor(right) and not is_number(right) and not is_size(right):
        location = frame.location(span)
        raise ProblemError(WrongKind(location, "a number right of `**`", describe(right)))
    a, b = of_one_type(frame, span, "**", left, right, names)
    if not b.type.dtype.is_float:
        problem = ElementTypeMismatch(frame.location(span), "`**` takes floats", str(b.type))
        raise ProblemError(replace(problem, cure=Help("convert it", f"f32({names[1]})")))
    a, b = align(frame, span, "**", (a, b), names)
    return powers.by_logarithm(frame, span, (a, b), (powers.number_of(left), exponent))


def connect(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """`p and q`, `p or q` on bool tensors: where(p, q, false) and where(p, true, q)."""
    sides = tuple(zip(names, (left, right), strict=True))
    if any(is_tensor(side) and side.type.dtype is not DType.BOOL for _, side in sides):
        written = f" {operator} ".join(_as_bool(name, side, "!=") for name, side in sides)
        raise _no_bool(frame, span, operator, [side for _, side in sides], written)
    a, b = lift(frame, span, left, right)
    a, b = align(frame, span, operator, (a, b), ("left", "right"))
    absorbing = scalar(frame, span, operator == "or", DType.BOOL, a.type.shape)
    branches = (b, absorbing) if operator == "and" else (absorbing, b)
    return frame.add(span, ops.Where(), a, *branches)


def invert_tensor(frame: Frame, span: Span, value: Tensor) -> Tensor:
    """`not p` on a bool tensor."""
    if value.type.dtype is not DType.BOOL:
        written = _as_bool(span.text.removeprefix("not").strip(), value, "==")
        raise _no_bool(frame, span, "not", [value], written)
    no = scalar(frame, span, 0, DType.BOOL, value.type.shape)
    yes = scalar(frame, span, 1, DType.BOOL, value.type.shape)
    return frame.add(span, ops.Where(), value, no, yes)


def _no_bool(
    frame: Frame, span: Span, operator: str, sides: Sequence[ElabValue], written: str
) -> ProblemError:
    """Returns the error that `and`, `or` or `not` is given a tensor of numbers."""
    numbers = next(each for each in sides if is_tensor(each) and each.type.dtype is not DType.BOOL)
    cure = Help("to ask which elements are not 0, compare", written)
    what = f"`{operator}` takes bool, not {numbers.type.dtype.value}"
    found = "\n".join(str(each.type) if is_tensor(each) else describe(each) for each in sides)
    return ProblemError(TypeRuleBroken(frame.location(span), what, found, cure))


def _as_bool(name: str, value: ElabValue, sign: str) -> str:
    """Returns the comparison of a tensor of numbers with 0; what is no such tensor as it is."""
    if not is_tensor(value) or value.type.dtype is DType.BOOL:
        return name
    return f"{name if re.fullmatch(ONE_VALUE, name) else f'({name})'} {sign} 0"


def reduce_sum(frame: Frame, span: Span, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum over some axes, which disappear."""
    if not axes:
        return value
    check_chosen(frame, span, value)
    return frame.add(span, ops.Sum(axes), value)


def reduce_mean(frame: Frame, span: Span, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean over some axes; of a bool tensor, the fraction that is true."""
    value = value if value.type.dtype.is_float else cast(frame, span, value, DType.F32)
    count = product(value.type.shape[axis] for axis in axes)
    total = reduce_sum(frame, span, value, axes)
    divisor = scalar(frame, span, count, value.type.dtype, total.type.shape)
    return frame.add(span, ops.Div(), total, divisor)
