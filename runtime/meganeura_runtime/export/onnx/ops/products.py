"""Reductions, products of matrices, convolutions and windows."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import ArgMax, Conv, ConvInputGradient, MatMul, MaxPool, ReduceMax, Sum
from meganeura_dsl.ir.types import DType, Shape
from meganeura_runtime.export.onnx.attributes import numbers, window
from meganeura_runtime.export.onnx.emitter import ELEMENT
from meganeura_runtime.export.onnx.lowering import (
    AXES_ARE_OPERANDS,
    INT64,
    Lower,
    Lowering,
    OnnxTensor,
    exact,
)


def reduced(into: Lowering, op_type: str, x: str, axes: Sequence[int]) -> str:
    """A reduction along axes; they became an operand in opset 13 for sums, in 18 for others."""
    if op_type == "ReduceSum" or into.emitter.opset >= AXES_ARE_OPERANDS:
        return into.emitter.add(op_type, x, into.emitter.integers(axes), keepdims=0)
    return into.emitter.add(op_type, x, axes=tuple(axes), keepdims=0)


def _reduction(op_type: str) -> Lower:
    def lower(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
        op, (x,) = value.op, value.operands
        assert isinstance(op, Sum | ReduceMax)
        if not op.axes:
            return (into.tensors[x.id],)
        if value.type.dtype is not DType.U32:
            return (exact(reduced(into, op_type, into.whole(x), op.axes), value),)
        # ONNX Runtime sums no u32; what overflows wraps around in both.
        wide = into.emitter.add("Cast", into.whole(x), to=INT64)
        total = reduced(into, op_type, wide, op.axes)
        return (exact(into.emitter.add("Cast", total, to=ELEMENT[DType.U32]), value),)

    return lower


def _arg_max(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, ArgMax)
    found = into.emitter.add("ArgMax", into.whole(x), axis=op.axis, keepdims=0)
    return (exact(into.emitter.add("Cast", found, to=ELEMENT[value.type.dtype]), value),)


def _matmul(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, operands = value.op, value.operands
    assert isinstance(op, MatMul)
    names: list[str] = []
    for x, flipped in zip(operands, (op.transpose_left, op.transpose_right), strict=True):
        name, rank = into.whole(x), x.type.rank
        if flipped:
            order = [*range(rank - 2), rank - 1, rank - 2]
            name = into.emitter.add("Transpose", name, perm=tuple(order))
        names.append(name)
    product = into.emitter.add("MatMul", *names)
    return (exact(product, value),)


def _conv(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    x, w = value.operands
    around = window(value, w.type.shape[2:])
    return (exact(into.emitter.add("Conv", into.whole(x), into.whole(w), **around), value),)


def _conv_transpose(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (w, dy) = value.op, value.operands
    assert isinstance(op, ConvInputGradient)
    around = window(value, w.type.shape[2:])
    spare: Shape = tuple(
        size - ((seen - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding)
        for size, seen, stride, dilation, kernel, padding in zip(
            op.spatial,
            dy.type.shape[2:],
            op.stride,
            op.dilation,
            w.type.shape[2:],
            op.padding,
            strict=True,
        )
    )
    around["output_padding"] = numbers(value, "output padding", spare)
    return (
        exact(into.emitter.add("ConvTranspose", into.whole(dy), into.whole(w), **around), value),
    )


def _max_pool(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, MaxPool)
    return (
        exact(
            into.emitter.add(
                "MaxPool",
                into.whole(x),
                kernel_shape=numbers(value, "window", op.window),
                strides=numbers(value, "stride", op.stride),
                pads=numbers(value, "padding", op.padding) * 2,
            ),
            value,
        ),
    )


OPS: Mapping[type[Op], Lower] = {
    ArgMax: _arg_max,
    Conv: _conv,
    ConvInputGradient: _conv_transpose,
    MatMul: _matmul,
    MaxPool: _max_pool,
    ReduceMax: _reduction("ReduceMax"),
    Sum: _reduction("ReduceSum"),
}
