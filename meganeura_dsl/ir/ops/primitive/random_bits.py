"""Random words by a counter: Threefry-2x32."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape, require_at_least, title
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["RandomBits"]


@dataclass(frozen=True)
class RandomBits(Op):
    """Uniform 32-bit words that depend only on the stream, on `counter` and on their index.

    `counter` is u32[2]: the seed and the step. Word i, counted in row-major order, is the first
    word of Threefry-2x32 with 20 rounds, its key the counter and its block (i, stream).
    J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """

    operands = Operands(("counter",))
    traits = frozenset({Trait.GENERATOR})
    element_cost = ElementCost.FREE  # a mask is drawn once more for the gradient, and never stored
    stream: int
    shape: Shape

    def infer(self, facts: Facts, counter: TensorType) -> TensorType:
        if counter != TensorType(DType.U32, (2,)):
            raise TypeRuleError(f"{title(self)} takes a counter u32[2], not {counter}")
        if self.stream not in range(1 << 32):
            raise TypeRuleError(f"{title(self)} has stream {self.stream}, which is not a u32")
        require_at_least(self, facts, "shape", self.shape, 1)
        return TensorType(DType.U32, self.shape)

    def evaluate(self, counter: Array) -> Array:
        shape = concrete_shape(self.shape)
        index = np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint32)
        stream = np.full_like(index, self.stream)
        return threefry(counter.astype(np.uint32), index, stream)[0].reshape(shape)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (None,)


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The number of bits by which each round of Threefry-2x32 rotates, in groups of four."""
KEY_PARITY = 0x1BD11BDA
"""The constant in the third word of the key schedule."""


def threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Threefry-2x32-20 of the blocks (first, second) under a key of two words."""
    schedule = np.array([key[0], key[1], np.uint32(KEY_PARITY) ^ key[0] ^ key[1]], np.uint32)
    first, second = first + schedule[:1], second + schedule[1:2]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            first = first + second
            second = (second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))
            second = second ^ first
        injected = group + 1
        first = first + schedule[[injected % 3]]
        second = second + schedule[[(injected + 1) % 3]] + np.uint32(injected)
    return first, second


OPS: tuple[type[Op], ...] = (RandomBits,)
