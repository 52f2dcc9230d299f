"""Built-in functions that move, join and repeat the elements of tensors."""

from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.typecheck import tensor_values
from meganeura_dsl.elaborate.typecheck.rearrangement import Rearranger
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Pattern,
    Tensor,
    TensorList,
)
from meganeura_dsl.ir import ops


def _mover(call: BuiltinCall) -> tuple[Rearranger, Tensor]:
    pattern = call.option(1, "pattern")
    if not isinstance(pattern, Pattern):
        raise call.fault("needs a pattern")
    return Rearranger(call.frame, call.span, pattern), call.tensor(0)


def rearrange(call: BuiltinCall) -> ElabValue:
    """Returns a tensor with its axes split, joined and permuted as a pattern says."""
    mover, value = _mover(call)
    return mover.rearrange(value)


def expand(call: BuiltinCall) -> ElabValue:
    """Returns a tensor repeated along the new axes of a pattern."""
    mover, value = _mover(call)
    return mover.expand(value)


def insert_axis(call: BuiltinCall) -> ElabValue:
    """Returns a tensor repeated along a new axis."""
    value = call.tensor(0)
    axis = call.axis(call.option(1, "axis"), value.type.rank + 1)
    shape = (*value.type.shape[:axis], call.size(2, "size"), *value.type.shape[axis:])
    return tensor_values.broadcast(
        call.frame, call.span, value, shape, tuple(i for i in range(len(shape)) if i != axis)
    )


def repeat(call: BuiltinCall) -> ElabValue:
    """Each slice along an axis `times` times in a row."""
    value = call.tensor(0)
    axis, times = call.axis(call.option(1, "axis"), value.type.rank), call.size(2, "times")
    before, size, after = (
        value.type.shape[:axis],
        value.type.shape[axis],
        value.type.shape[axis + 1 :],
    )
    spread = (*before, size, times, *after)
    kept = tuple(index for index in range(len(spread)) if index != axis + 1)
    repeated = tensor_values.broadcast(call.frame, call.span, value, spread, kept)
    return call.add(ops.Reshape((*before, size * times, *after)), repeated)


def concat(call: BuiltinCall) -> ElabValue:
    """Returns tensors, or those of lists, joined along the axis that is named."""
    operands = [
        tensor
        for index, value in enumerate(call.arguments)
        if value != []
        for tensor in (value.items if isinstance(value, TensorList) else (call.tensor(index),))
    ]
    if not operands:
        raise call.fault("needs at least one tensor")
    axis = call.named.get("axis")
    if axis is None:
        raise call.fault("needs `axis`")
    together = tensor_values.promoted(call.frame, call.span, *operands)
    return call.add(ops.Concat(call.axis(axis, operands[0].type.rank)), *together)


def pad(call: BuiltinCall) -> ElabValue:
    """Returns a tensor with zeros before and after it along an axis."""
    value = call.tensor(0)
    rank = value.type.rank
    axis = call.axis(call.option(1, "axis"), rank)
    low, high = call.size(2, "before", 0), call.size(3, "after", 0)
    lows = tuple(low if index == axis else 0 for index in range(rank))
    highs = tuple(high if index == axis else 0 for index in range(rank))
    return call.add(ops.Pad(lows, highs, (0,) * rank), value)


def reverse(call: BuiltinCall) -> ElabValue:
    """Returns a tensor in reverse order along an axis."""
    value = call.tensor(0)
    return call.add(ops.Reverse((call.axis(call.option(1, "axis"), value.type.rank),)), value)
