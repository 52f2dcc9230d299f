"""Numbers as tensors, and tensors in another shape or element type.

The one place where a smaller operand is broadcast is `align` in `tensor_arithmetic`.
"""

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.shape_problems import (
    WrittenMismatch,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.iteration_numbers import number as iteration_number
from meganeura_dsl.elaborate.values import (
    Opaque,
    Tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.interval_analysis import EXACT
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Proved, Verdict
from meganeura_dsl.symbolic.size import Dim, Size


def scalar(
    frame: Frame, span: Span, value: float | Dim | Opaque, dtype: DType, shape: Shape = ()
) -> Tensor:
    """A number as a tensor of some shape, the same everywhere."""
    if isinstance(value, Dim) and frame.state.differs_by_iteration(value):
        number = cast(frame, span, iteration_number(frame, span, value), dtype)
        return broadcast(frame, span, number, shape, ())
    number = float("nan") if isinstance(value, Opaque) else value
    if dtype.is_float and isinstance(number, int):
        number = float(number)
    constant = frame.add(span, ops.Constant(number, dtype))
    return broadcast(frame, span, constant, shape, ())


def broadcast(
    frame: Frame, span: Span, value: Tensor, shape: Shape, axes: tuple[int, ...]
) -> Tensor:
    """The value repeated along every axis of `shape` that `axes` does not name."""
    if len(axes) == len(shape):
        return value
    return frame.add(span, ops.Broadcast(shape, axes), value)


def cast(frame: Frame, span: Span, value: Tensor, dtype: DType) -> Tensor:
    """The value converted to an element type, unless it has it already.

    A whole number that was written as a float, as `full` writes it, is the number that it was.
    """
    if value.type.dtype is dtype:
        return value
    number = _whole_number(value) if dtype is DType.I32 else None
    if number is not None:
        return scalar(frame, span, number, dtype, value.type.shape)
    written = _written(value) if dtype is DType.I32 else None
    if written is not None:
        return broadcast(frame, span, written, value.type.shape, ())
    return frame.add(span, ops.Cast(dtype), value)


def _whole_number(value: Tensor) -> Size | None:
    """The whole number that each element of a constant tensor is, if it is one."""
    source = value.operands[0] if isinstance(value.op, ops.Broadcast) else value
    match source.op:
        case ops.Constant(value=Dim() as number, dtype=DType.F32):
            return number
        case ops.Constant(value=float() as number, dtype=DType.F32) if abs(
            number
        ) < EXACT and number == int(number):
            return int(number)
        case _:
            return None


def _written(value: Tensor) -> Tensor | None:
    """The whole number of the graph that fills a tensor of floats, as the index of a scan."""
    match value.op:
        case ops.Broadcast(axes=()) if isinstance(value.operands[0].op, ops.Cast):
            (source,) = value.operands[0].operands
            return source if source.type.dtype is DType.I32 else None
        case _:
            return None


def promoted(frame: Frame, span: Span, *values: Tensor) -> tuple[Tensor, ...]:
    """The values, floats of the widest of their types where they are of several: f16 meets f32.

    That is exact. Nothing else is converted, as it may lose something.
    """
    floats = {value.type.dtype for value in values if value.type.dtype.is_float}
    if len(floats) < 2:
        return values
    return tuple(
        cast(frame, span, value, DType.F32) if value.type.dtype.is_float else value
        for value in values
    )


def equal(frame: Frame, left: Size, right: Size) -> Verdict:
    """Decides if two sizes are equal for all sizes that the facts admit."""
    if left is right or left == right:
        return Proved()
    return frame.facts.decide(Compare("==", left, right))


def require_fit(
    frame: Frame,
    span: Span,
    what: str,
    wanted: TensorType,
    value: Tensor,
    cure: Help | None = None,
) -> None:
    """Refuse a value of another type than that of the place it is written to."""
    found = value.type
    pairs = zip(found.shape, wanted.shape, strict=False)
    same = found.dtype is wanted.dtype and found.rank == wanted.rank
    if not same or not all(isinstance(equal(frame, a, b), Proved) for a, b in pairs):
        raise ProblemError(
            WrittenMismatch(frame.location(span), what, str(wanted), str(found), None, cure)
        )
