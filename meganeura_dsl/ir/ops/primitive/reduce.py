"""The largest along axes: its value, and where it is first."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, others
from meganeura_dsl.ir.ops.primitive.elementwise import Cast, Compare, Div, Mul
from meganeura_dsl.ir.ops.type_rules import NUMBERS, require_axes, require_dtype
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["ArgMax", "ReduceMax"]


@dataclass(frozen=True)
class ReduceMax(Op):
    """The largest along axes, which disappear. All that are largest share the cotangent equally."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    axes: tuple[int, ...]

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, NUMBERS)
        require_axes(self, self.axes, x.rank)
        return x.with_shape(tuple(x.shape[axis] for axis in others(self.axes, x.rank)))

    def evaluate(self, x: Array) -> Array:
        return np.max(x, axis=self.axes)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        # dx = [x == max] * cotangent / count(x == max)
        (x,) = out.operands
        back = Broadcast(x.type.shape, others(self.axes, x.type.rank))
        largest = build.add(Compare("eq"), x, build.add(back, out))
        chosen = build.add(Cast(out.type.dtype), largest)
        share = build.add(Div(), cotangent, build.add(Sum(self.axes), chosen))
        return (build.add(Mul(), build.add(back, share), chosen),)

    def branch_index(self, build: Builder, out: Value) -> Value:
        (x,) = out.operands
        spread = Broadcast(x.type.shape, others(self.axes, x.type.rank))
        return build.add(Compare("eq"), x, build.add(spread, out))

    def fusible_reduction_axes(self, rank: int) -> tuple[int, ...]:
        return self.axes


@dataclass(frozen=True)
class ArgMax(Op):
    """The index of the first of the largest along one axis, which disappears."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    axis: int

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, NUMBERS)
        require_axes(self, (self.axis,), x.rank)
        shape = x.shape[: self.axis] + x.shape[self.axis + 1 :]
        return TensorType(DType.I32, shape)

    def evaluate(self, x: Array) -> Array:
        return np.argmax(x, axis=self.axis)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return out


OPS: tuple[type[Op], ...] = (ReduceMax, ArgMax)
