"""Built-in functions that compute: elementwise functions, conversions and reductions."""

import math
import re
from collections.abc import Callable

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.builtins.builtin_sizes import rounded
from meganeura_dsl.elaborate.problems.proof_failures import example_of
from meganeura_dsl.elaborate.problems.shape_problems import NormMayDegenerate, NormOverOne
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck import tensor_arithmetic, tensor_values
from meganeura_dsl.elaborate.typecheck.rearrangement import Rearranger
from meganeura_dsl.elaborate.typecheck.static_arithmetic import STATIC_FUNCTIONS, combine
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    Opaque,
    Pattern,
    Tensor,
    is_number,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.primitive import elementwise
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.assumptions import Compare, Refuted
from meganeura_dsl.symbolic.size import Dim, product, show
from meganeura_dsl.syntax.problems.block_text import split_top

UNARY: dict[str, Op] = {op.builtin: op() for op in elementwise.UNARY if op.builtin}
BINARY: dict[str, Op] = {op.builtin: op() for op in elementwise.BINARY if op.builtin}
ROUNDINGS: dict[str, Callable[[float], int]] = {"floor": math.floor, "round": round}
"""Functions whose value for a number is a whole number, which a size can be."""


# --- elementwise ---------------------------------------------------------------------------------


def unary(call: BuiltinCall) -> ElabValue:
    """A function of one tensor, or of one number."""
    value = call.lifted(call.option(0, "x"))
    if is_tensor(value):
        return call.add(UNARY[call.name], value)
    if call.name in ROUNDINGS and is_number(value):
        return rounded(call, ROUNDINGS[call.name], value)
    if isinstance(value, Dim | Opaque):
        return Opaque.NUMBER
    function = STATIC_FUNCTIONS.get(call.name)
    if isinstance(value, int | float) and not isinstance(value, bool) and function is not None:
        try:
            return function(value)
        except ValueError as error:
            raise call.wrong("a number the function is defined for", value) from error
    raise call.wrong("a tensor or a number", value)


def pair(op: Op) -> Callable[[BuiltinCall], ElabValue]:
    """A function of two tensors, or of a tensor and a number."""

    def apply(call: BuiltinCall) -> ElabValue:
        left, right = map(call.lifted, (call.option(0, "a"), call.option(1, "b")))
        if not is_tensor(left) and not is_tensor(right):
            raise call.wrong("a tensor", left)
        known = call.frame.state.values.fill_values.get(left.id) if is_tensor(left) else None
        if is_tensor(left) and isinstance(known, int | float) and isinstance(right, int | float):
            # An optional tensor that was not given stays a number: nothing is computed of it.
            extreme = max if call.name == "maximum" else min
            return _filled(call, extreme(known, right), left.type.dtype, left.type.shape)
        return tensor_arithmetic.apply_pair(
            call.frame, call.span, op, call.name, left, right, ("the first", "the second")
        )

    return apply


def where(call: BuiltinCall) -> ElabValue:
    """`then` where the condition holds and `otherwise` elsewhere."""
    condition = call.tensor(0)
    if condition.type.dtype is not DType.BOOL:
        given = re.fullmatch(r"where\((.*)\)", " ".join(call.span.text.split()))
        first, *others = split_top(given[1]) if given else ("",)
        is_one = tensor_arithmetic.ONE_VALUE.fullmatch(first.strip())
        compared = f"{first if is_one else f'({first})'} != 0"
        code = f"where({', '.join([compared, *map(str.strip, others)])})"
        cure = Help("to choose where it is not 0, compare", code) if others else None
        raise call.wrong("a bool tensor as condition", condition, cure)
    left, right = map(call.lifted, (call.option(1, "then"), call.option(2, "otherwise")))
    known = call.frame.state.values.fill_values.get(condition.id)
    chosen, other = (left, right) if known else (right, left)
    if isinstance(known, bool) and (is_tensor(chosen) or not is_tensor(other)):
        return _known_choice(call, condition, chosen)
    if not is_tensor(left) and not is_tensor(right):
        if not is_number(left) or not is_number(right):
            raise call.wrong("tensors or numbers", right if is_number(left) else left)
        left = tensor_values.scalar(call.frame, call.span, left, DType.F32, condition.type.shape)
    a, b = tensor_values.promoted(
        call.frame, call.span, *tensor_arithmetic.lift(call.frame, call.span, left, right)
    )
    names = ("the first choice", "the second choice")
    a, b = tensor_arithmetic.align(call.frame, call.span, call.name, (a, b), names)
    condition, a = tensor_arithmetic.align(
        call.frame, call.span, call.name, (condition, a), ("the condition", "the first choice")
    )
    a, b = tensor_arithmetic.align(call.frame, call.span, call.name, (a, b), names)
    return call.add(ops.Where(), condition, a, b)


def _known_choice(call: BuiltinCall, condition: Tensor, chosen: ElabValue) -> Tensor:
    """Returns the side that is chosen everywhere, as an optional condition was not given."""
    frame, shape = call.frame, condition.type.shape
    if is_tensor(chosen):
        names = ("the condition", "what is chosen")
        return tensor_arithmetic.align(frame, call.span, call.name, (condition, chosen), names)[1]
    if not isinstance(chosen, int | float | Dim):
        raise call.wrong("a tensor or a number", chosen)
    return _filled(call, chosen, DType.F32, shape)


def _filled(call: BuiltinCall, number: float | Dim, dtype: DType, shape: Shape) -> Tensor:
    """A number everywhere, known as such."""
    filled = tensor_values.scalar(call.frame, call.span, number, dtype, shape)
    call.frame.state.values.fill_values[filled.id] = number
    return filled


def convert(dtype: DType) -> Callable[[BuiltinCall], ElabValue]:
    """The conversion to an element type."""
    return lambda call: tensor_values.cast(call.frame, call.span, call.tensor(0), dtype)


def stop_gradient(call: BuiltinCall) -> ElabValue:
    """The same value, through which no gradient flows."""
    return call.add(ops.StopGradient(), call.tensor(0))


def sign(call: BuiltinCall) -> ElabValue:
    """-1, 0 or 1; it has no slope."""
    x = call.tensor(0)
    zero, one, minus = (
        tensor_values.scalar(call.frame, call.span, number, x.type.dtype, x.type.shape)
        for number in (0, 1, -1)
    )
    below = call.add(ops.Where(), call.add(ops.Compare("lt"), x, zero), minus, zero)
    return call.add(ops.Where(), call.add(ops.Compare("gt"), x, zero), one, below)


# --- reductions ----------------------------------------------------------------------------------

Fold = Callable[[BuiltinCall, Tensor, tuple[int, ...]], Tensor]


def fold_sum(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum."""
    return tensor_arithmetic.reduce_sum(call.frame, call.span, value, axes)


def fold_mean(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean; of truth values, the fraction that is true."""
    return tensor_arithmetic.reduce_mean(call.frame, call.span, value, axes)


def fold_max(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element."""
    return call.add(ops.ReduceMax(axes), value) if axes else value


def fold_min(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The smallest element, -max(-x)."""
    return call.add(ops.Neg(), fold_max(call, call.add(ops.Neg(), value), axes))


def fold_any(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Returns a bool that is true where any value along the axes is."""
    if value.type.dtype is not DType.BOOL:
        raise call.wrong("a bool tensor", value)
    number = tensor_values.cast(call.frame, call.span, value, DType.I32)
    return tensor_values.cast(call.frame, call.span, fold_max(call, number, axes), DType.BOOL)


def fold_all(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Returns a bool that is true where all values along the axes are, as `not any(not x)`."""
    if value.type.dtype is not DType.BOOL:
        raise call.wrong("a bool tensor", value)
    invert = tensor_arithmetic.invert_tensor
    wrong = fold_any(call, invert(call.frame, call.span, value), axes)
    return invert(call.frame, call.span, wrong)


def fold_variance(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """mean((x - mean(x))**2), the biased variance."""
    frame, span = call.frame, call.span
    _require_several(call, value, axes)
    mean = tensor_arithmetic.reduce_mean(frame, span, value, axes)
    kept = tuple(axis for axis in range(value.type.rank) if axis not in axes)
    centered = call.add(
        ops.Sub(), value, tensor_values.broadcast(frame, span, mean, value.type.shape, kept)
    )
    return tensor_arithmetic.reduce_mean(frame, span, call.add(ops.Mul(), centered, centered), axes)


def _require_several(call: BuiltinCall, value: Tensor, axes: tuple[int, ...]) -> None:
    frame, span = call.frame, call.span
    sizes = [value.type.shape[axis] for axis in axes]
    count = product(sizes)
    several = Compare(">=", count, 2)
    if frame.facts.proves(several):
        return
    if frame.state.abstract.symbols:
        frame.state.abstract.requirements.append(several)
        return
    if frame.facts.proves(Compare("==", count, 1)):
        raise ProblemError(NormOverOne(frame.location(span), f"axes of {show_shape(sizes)}"))
    verdict = frame.facts.decide(several)
    if isinstance(verdict, Refuted) and frame.state.proof is None:
        example = example_of(verdict, [("this is", value.type.shape)])
        frame.state.body.notes.append(
            ProblemError(NormMayDegenerate(frame.location(span), show(count), example))
        )


def reduction(fold: Fold) -> Callable[[BuiltinCall], ElabValue]:
    """A fold over the axes named, those a pattern drops, or all; of numbers, what Python says."""

    def apply(call: BuiltinCall) -> ElabValue:
        value = call.option(0, "x")
        if not is_tensor(value):
            return _static_reduction(call)
        rest = call.arguments[1:]
        if len(rest) == 1 and isinstance(rest[0], Pattern):
            mover = Rearranger(call.frame, call.span, rest[0])
            return mover.reduce(value, lambda split, axes: fold(call, split, axes))
        axes = [call.axis(part, value.type.rank) for part in rest]
        if len(set(axes)) != len(axes):
            raise call.fault("names an axis twice")
        return fold(call, value, tuple(sorted(axes)) if rest else tuple(range(value.type.rank)))

    return apply


def _static_reduction(call: BuiltinCall) -> ElabValue:
    values, kind = call.arguments, call.name
    if kind not in ("sum", "min", "max"):
        raise call.wrong("a tensor", values[0])
    if len(values) == 1 and isinstance(values[0], list | Axes):
        values = tuple(values[0])
    elif len(values) == 1 and isinstance(values[0], Dim):
        raise UndecidableError(f"`{kind}` needs the list the configuration gives")
    numbers = [value for value in values if is_number(value)]
    if kind != "sum" and len(values) == 2 and len(numbers) == 1 and any(map(is_tensor, values)):
        code = " ".join(call.node.span.text.split()).replace(f"{kind}(", f"{kind}imum(", 1)
        cure = Help(f"`{kind}` is over axes; of two values, element by element, it is", code)
        raise call.wrong("one tensor", call.arguments[0], cure)
    if len(numbers) != len(values) or (not numbers and kind != "sum"):
        raise call.wrong("a tensor, numbers or a list of numbers", call.arguments[0])
    if kind == "sum":
        total: ElabValue = 0
        for number in numbers:
            total = combine("+", total, number)
        return total
    known = [number for number in numbers if isinstance(number, int | float)]
    if len(known) != len(numbers):
        raise UndecidableError(f"`{kind}` of sizes the configuration gives")
    return min(known) if kind == "min" else max(known)
