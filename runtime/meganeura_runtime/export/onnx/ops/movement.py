"""Constants, broadcasts, and what moves elements about."""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Broadcast,
    Concat,
    Constant,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from meganeura_dsl.symbolic.size import Dim
from meganeura_runtime.export.onnx.attributes import refused
from meganeura_runtime.export.onnx.emitter import ELEMENT
from meganeura_runtime.export.onnx.lowering import Lower, Lowering, OnnxTensor, exact
from meganeura_runtime.io.tensors.stored_tensor import NUMPY

END = np.iinfo(np.int64).max
"""The end of a slice that takes all there is."""


def _constant(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, Constant)
    if isinstance(op.value, Dim):
        number = into.emitter.add("Squeeze", into.sizes.vector(op.value))
        return (OnnxTensor(into.emitter.add("Cast", number, to=ELEMENT[op.dtype]), 0),)
    return (OnnxTensor(into.emitter.constant(np.array(op.value, NUMPY[op.dtype])), 0),)


def _iota(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, Iota)
    return (exact(into.indices(op.size), value),)


def _broadcast(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Broadcast)
    tensor, rank = into.tensors[x.id], value.type.rank
    name, present = tensor.name, range(x.type.rank - tensor.rank, x.type.rank)
    if list(op.axes) != sorted(op.axes):
        order = sorted(range(x.type.rank), key=lambda axis: op.axes[axis])
        name, present = (
            into.emitter.add("Transpose", into.whole(x), perm=tuple(order)),
            range(len(order)),
        )
        tensor = exact(name, x)
    axes = sorted(op.axes)
    shown = [axes[axis] for axis in present]
    repeats = {axes[axis] for axis in tensor.stretched} | {*range(rank)} - {*axes}
    if not shown:
        return (OnnxTensor(name, 0, frozenset(repeats)),)
    inserted = [axis - shown[0] for axis in range(shown[0], rank) if axis not in shown]
    if inserted:
        name = into.emitter.add("Unsqueeze", name, into.emitter.integers(inserted))
    return (OnnxTensor(name, rank - shown[0], frozenset(repeats)),)


def _reshape(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    (x,) = value.operands
    target = into.sizes.target(x.type.shape, value.type.shape)
    return (exact(into.emitter.add("Reshape", into.whole(x), target), value),)


def _transpose(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Transpose)
    return (exact(into.emitter.add("Transpose", into.whole(x), perm=op.permutation), value),)


def _slice(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Slice)
    ends = [END if stop == size else stop for stop, size in zip(op.stop, x.type.shape, strict=True)]
    cut = [
        axis
        for axis in range(value.type.rank)
        if (op.start[axis], ends[axis], op.step[axis]) != (0, END, 1)
    ]
    if not cut:
        return (into.tensors[x.id],)
    chosen = [
        into.sizes.shape(tuple(each[axis] for axis in cut)) for each in (op.start, ends, op.step)
    ]
    starts, stops, steps = chosen
    axes = into.emitter.integers(cut)
    return (exact(into.emitter.add("Slice", into.whole(x), starts, stops, axes, steps), value),)


def _reverse(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Reverse)
    backward, axes = into.emitter.integers([-1] * len(op.axes)), into.emitter.integers(op.axes)
    first = into.emitter.integers([-END] * len(op.axes))
    return (
        exact(into.emitter.add("Slice", into.whole(x), backward, first, axes, backward), value),
    )


def _pad(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Pad)
    if any(size != 0 for size in op.interior):
        raise refused(value, "it pads between elements")
    pads = into.sizes.shape((*op.low, *op.high))
    return (exact(into.emitter.add("Pad", into.whole(x), pads), value),)


def _concat(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, Concat)
    return (
        exact(into.emitter.add("Concat", *map(into.whole, value.operands), axis=op.axis), value),
    )


OPS: Mapping[type[Op], Lower] = {
    Broadcast: _broadcast,
    Concat: _concat,
    Constant: _constant,
    Iota: _iota,
    Pad: _pad,
    Reshape: _reshape,
    Reverse: _reverse,
    Slice: _slice,
    Transpose: _transpose,
}
