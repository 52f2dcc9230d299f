"""Short names of ops: `conv 3x3 64->64 @56x56`."""

import re
from collections.abc import Iterable, Sequence
from math import prod

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, MatMul, ReduceMax, Sum
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.primitive.pool import Pooling
from meganeura_dsl.ir.ops.primitive.reduce import ArgMax
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import TensorType


def op_name(op: Op, operands: Sequence[TensorType], result: TensorType) -> str:
    """The kind of an op and the sizes it works on."""
    return f"{kind_of(op)} {sizes_of(op, operands, result)}".rstrip()


def kind_of(op: Op) -> str:
    """Returns the kind of an op, in words."""
    match op:
        case ConvInputGradient():
            return "conv to input"
        case ConvWeightGradient():
            return "conv to weight"
        case _:
            return spaced(type(op).__name__)


def spaced(name: str) -> str:
    """`ReduceMax` is `reduce max`, `MatMul` is `matmul`."""
    return "matmul" if name == "MatMul" else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def sizes_of(op: Op, operands: Sequence[TensorType], result: TensorType) -> str:
    """The sizes of a contraction, a window or a reduction; of other ops, the shape they give."""
    match op:
        case MatMul():
            return _multiplied(op, operands, result)
        case Conv() | ConvInputGradient() | ConvWeightGradient():
            return _convolved(op, operands, result)
        case Pooling():
            window = times(concrete_shape(op.window))
            return f"{window}{_stride(op.stride)} @{times(concrete_shape(result.shape))}"
        case Sum() | ReduceMax() | ArgMax():
            results = prod(concrete_shape(result.shape))
            return f"{results}x{prod(concrete_shape(operands[0].shape)) // results}"
        case _:
            return times(concrete_shape(result.shape))


def _multiplied(op: MatMul, operands: Sequence[TensorType], result: TensorType) -> str:
    """`batch x M x N x K`, without a batch of one; the rows of all are one matrix if b is one."""
    right = concrete_shape(operands[1].shape)
    *leading, columns = concrete_shape(result.shape)
    batch, rows = (1, prod(leading)) if len(right) == 2 else (prod(leading[:-1]), leading[-1])
    sizes = (rows, columns, right[-1] if op.transpose_right else right[-2])
    return times((batch, *sizes) if batch > 1 else sizes)


def _convolved(op: Convolution, operands: Sequence[TensorType], result: TensorType) -> str:
    """`3x3/2 64->128 @28x28`: kernel, stride, channels, and the pixels of the output."""
    a, b = (concrete_shape(operand.shape) for operand in operands)
    groups = concrete(op.groups)
    match op:
        case Conv():
            outputs, depth, *kernel = b
            pixels = concrete_shape(result.shape)[2:]
        case ConvInputGradient():
            outputs, depth, *kernel = a
            pixels = b[2:]
        case ConvWeightGradient(kernel=sizes):
            outputs, depth, kernel = b[1], a[1] // groups, list(concrete_shape(sizes))
            pixels = b[2:]
        case _:
            raise TypeError(f"{op} is no convolution")
    grouped = f" in {groups} groups" if groups > 1 else ""
    channels = f"{depth * groups}->{outputs}{grouped}"
    return f"{times(kernel)}{_stride(op.stride)} {channels} @{times(pixels)}"


def _stride(stride: Iterable[object]) -> str:
    """`/2`, where it is not 1."""
    steps = [str(step) for step in stride]
    if all(step == "1" for step in steps):
        return ""
    return f"/{steps[0] if len(set(steps)) == 1 else 'x'.join(steps)}"


def times(sizes: Iterable[int]) -> str:
    """Sizes with an `x` between them; 1 for a scalar."""
    return "x".join(map(str, sizes)) or "1"
