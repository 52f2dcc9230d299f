"""Leaves of a graph: data, parameters, numbers and index ranges."""

from dataclasses import dataclass
from typing import Literal

from meganeura_dsl.ir.graph import Array, Leaf, Op
from meganeura_dsl.ir.ops.type_rules import concrete, require_at_least
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Dim, Size

__all__ = ["Constant", "Input", "Iota", "Parameter"]

Kind = Literal["param", "frozen", "state", "cache"]
Number = float | int | bool | Dim


@dataclass(frozen=True)
class Input(Leaf):
    """Data fed at each run."""

    is_persistent = False


@dataclass(frozen=True)
class Parameter(Leaf):
    """A tensor kept between runs: trained, never changed, or updated by the graph itself."""

    is_persistent = True
    kind: Kind


@dataclass(frozen=True, eq=False)
class Constant(Op):
    """A scalar number. Two are equal if no computation can tell them apart: 0.0 is not -0.0."""

    operands = Operands()
    traits = frozenset({Trait.GENERATOR})
    element_cost = ElementCost.FREE
    value: Number
    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _as_dtype(self.value, self.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[DType, object]:
        return self.dtype, self.value.hex() if isinstance(self.value, float) else self.value

    def infer(self, facts: Facts) -> TensorType:
        return TensorType(self.dtype, ())

    def evaluate(self) -> Array:
        value = concrete(self.value) if isinstance(self.value, Dim) else self.value
        return np.asarray(value)


def _as_dtype(value: Number, dtype: DType) -> Number:
    if isinstance(value, Dim):
        return value
    match dtype:
        case DType.F32 | DType.F16:
            return float(value)
        case DType.I32 | DType.U32:
            return int(value)
        case DType.BOOL:
            return bool(value)


@dataclass(frozen=True)
class Iota(Op):
    """The i32 numbers 0, 1, ..., size - 1."""

    operands = Operands()
    traits = frozenset({Trait.GENERATOR})
    element_cost = ElementCost.FREE
    size: Size

    def infer(self, facts: Facts) -> TensorType:
        require_at_least(self, facts, "size", (self.size,), 1)
        return TensorType(DType.I32, (self.size,))

    def evaluate(self) -> Array:
        return np.arange(concrete(self.size), dtype=np.int32)


OPS: tuple[type[Op], ...] = (Input, Parameter, Constant, Iota)
