"""Numbers of a few bits, taken out of their words wherever they are read."""

from math import prod

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops.fused import Dequantize
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Expression,
    Index,
    ravel,
    unravel,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

OPS: tuple[type[Op], ...] = (Dequantize,)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """The element, from its word and its scale."""
    match value.op:
        case Dequantize(shape=shape, bits=bits) as op:
            words, scales = value.operands
            (row, *place), (_, *rest) = index, concrete_shape(shape)
            position = ravel(tuple(place), tuple(rest))
            count, groups = (concrete(each.type.shape[1]) for each in value.operands)
            column, within = unravel(position, (count, op.levels.each))
            group, _ = unravel(position, (groups, prod(rest) // groups))
            word = reading.at(words, (row, column))
            scale = reading.at(scales, (row, group))
            offset = reading.make.number(within * bits, DType.U32)
            zero = reading.make.literal(float(op.levels.zero), DType.F32)
            template = f"(f32(extractBits({{0}}, {{1}}, {bits}u)) - {{2}}) * {{3}}"
            return reading.make.call(template, value.type.dtype, word, offset, zero, scale)
        case op:
            raise TypeError(f"{op} has no words")
