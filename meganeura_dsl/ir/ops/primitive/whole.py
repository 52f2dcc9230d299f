"""Division of whole numbers by a size, rounded down, and what remains."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.type_rules import INTEGERS, concrete, require_at_least, require_dtype
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Size

__all__ = ["FloorDivide", "Remainder"]


@dataclass(frozen=True)
class Division(Op, abstract=True):
    """What both share: the divisor is a size, so that nothing is divided by zero."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.SIMPLE
    divisor: Size

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, INTEGERS)
        require_at_least(self, facts, "divisor", (self.divisor,), 1)
        return x


@dataclass(frozen=True)
class FloorDivide(Division):
    """The greatest whole number that is not above x / divisor."""

    def evaluate(self, x: Array) -> Array:
        return np.floor_divide(x, x.dtype.type(concrete(self.divisor)))


@dataclass(frozen=True)
class Remainder(Division):
    """x - divisor (x // divisor), one of 0 ... divisor - 1."""

    def evaluate(self, x: Array) -> Array:
        return np.remainder(x, x.dtype.type(concrete(self.divisor)))


OPS: tuple[type[Op], ...] = (FloorDivide, Remainder)
