"""Matrix products with an epilogue of a library, in an op that only graphs for XLA contain."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.fused.contraction import FusedMatMul
from meganeura_dsl.ir.traits import ElementCost, Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class LibraryMatMul(Op):
    """The result of `whole` without a residual, rounded once."""

    operands = Operands(("a", "b", "bias"))
    traits = FusedMatMul.traits
    element_cost = ElementCost.LOAD

    whole: FusedMatMul

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """Returns the type of the product."""
        return self.whole.infer(facts, *operands)

    def evaluate(self, *operands: Array) -> Array:
        """Returns the result of the reference."""
        return self.whole.evaluate(*operands)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Returns the count of the product."""
        return self.whole.flops(operands, result)
