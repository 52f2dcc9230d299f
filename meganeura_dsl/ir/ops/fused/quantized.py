"""Whole numbers of a few bits, packed into words, and the floats that they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.ops.primitive.elementwise import Cast, Mul, Sub
from meganeura_dsl.ir.ops.primitive.movement import Concat, Reshape, Slice
from meganeura_dsl.ir.ops.primitive.whole import FloorDivide, Remainder
from meganeura_dsl.ir.ops.type_rules import FLOATS, concrete_shape, require_dtype, title
from meganeura_dsl.ir.quantization import BITS, Quantization
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Dequantize"]


@dataclass(frozen=True)
class Dequantize(Fused):
    """Whole numbers of `bits` bits, times the scale of their group.

    The tensor has `shape` [rows, ...], and a row is all that follows the first axis, in row-major
    order. `words` is u32[rows, n]: element i of a row is in word i // (32 / bits), as
    its value plus 2^(bits - 1), from bit (i mod (32 / bits)) bits on. `scales` is
    f32[rows, groups], where the groups of a row are of one length.
    """

    operands = Operands(("words", "scales"))
    traits = frozenset({Trait.GATHER})
    flops_per_element = 2
    shape: Shape
    bits: int

    def infer(self, facts: Facts, words: TensorType, scales: TensorType) -> TensorType:
        require_dtype(self, words, {DType.U32})
        require_dtype(self, scales, FLOATS)
        rows, *rest = concrete_shape(self.shape)
        length = prod(rest)
        if self.bits not in BITS:
            raise TypeRuleError(f"{title(self)} has numbers of 4 or 8 bits, not {self.bits}")
        wanted = (rows, -(-length // self.levels.each))
        groups = concrete_shape(scales.shape)[1:]
        if words.shape != wanted or scales.shape[:1] != (rows,) or len(groups) != 1:
            raise TypeRuleError(f"{title(self)} makes no {list(self.shape)} of {words}, {scales}")
        if length % groups[0]:
            raise TypeRuleError(f"{title(self)} cuts no row of {length} into {groups[0]} groups")
        return scales.with_shape(self.shape)

    @property
    def levels(self) -> Quantization:
        """The levels; `group` is that of the scales, which this op does not know."""
        return Quantization(self.bits)

    def evaluate(self, words: Array, scales: Array) -> Array:
        return self.levels.dequantize(words, scales, concrete_shape(self.shape))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        # word // 2^(bits k) mod 2^bits for each k, side by side.
        words, scales = operands
        rows, *rest = concrete_shape(self.shape)
        length, (_, count) = prod(rest), concrete_shape(words.type.shape)
        parts = [
            build.add(
                Reshape((rows, count, 1)),
                build.add(
                    Remainder(2**self.bits), build.add(FloorDivide(2 ** (self.bits * k)), words)
                ),
            )
            for k in range(self.levels.each)
        ]
        packed = build.add(Reshape((rows, count * self.levels.each)), build.add(Concat(2), *parts))
        levels = build.add(Slice((0, 0), (rows, length), (1, 1)), packed)
        numbers = build.add(Cast(scales.type.dtype), levels)
        centred = build.add(Sub(), numbers, full(build, numbers.type, self.levels.zero))
        groups = concrete_shape(scales.type.shape)[1]
        grouped = build.add(Reshape((rows, groups, length // groups)), centred)
        spread = build.add(Broadcast(grouped.type.shape, (0, 1)), scales)
        return build.add(Reshape(self.shape), build.add(Mul(), grouped, spread))


OPS: tuple[type[Op], ...] = (Dequantize,)
