"""What makes an op a fused one: it says in primitives what it computes at once."""

from collections.abc import Sequence
from math import prod

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType


class Fused(Op):
    """An op that the optimizer alone introduces, for a kernel that does several ops' work.

    Its reference and its gradient are written for themselves and tested against the expansion.
    What a gradient is made of has no gradient of its own: differentiate before optimizing.
    """

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value | tuple[Value, ...]:
        """The same result, or results, in primitives, for a device without a kernel for this op."""
        raise NotImplementedError

    def expand_all(self, build: Builder, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Each result in primitives."""
        expanded = self.expand(build, operands)
        return expanded if isinstance(expanded, tuple) else (expanded,)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """About how many additions and multiplications it takes."""
        raise NotImplementedError


def elements(of: TensorType) -> int:
    """How many elements a tensor has."""
    return prod(concrete_shape(of.shape))
