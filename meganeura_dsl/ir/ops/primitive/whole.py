"""Division of whole numbers by a size, rounded down, and what remains."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Op, TypeRuleError
from meganeura_dsl.ir.ops.type_rules import (
    INTEGERS,
    concrete,
    require_at_least,
    require_dtype,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Size

__all__ = ["FloorDivide", "Remainder"]


LARGEST = {DType.I32: 2**31 - 1, DType.U32: 2**32 - 1}
"""The largest number of an element type."""


@dataclass(frozen=True)
class Division(Op, abstract=True):
    """Base of both: the divisor is a size, so that nothing is divided by zero."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.SIMPLE
    divisor: Size

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, INTEGERS)
        require_at_least(self, facts, "divisor", (self.divisor,), 1)
        if isinstance(self.divisor, int) and self.divisor > LARGEST[x.dtype]:
            raise TypeRuleError(f"{title(self)} of {x.dtype.value} has no divisor {self.divisor}")
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
