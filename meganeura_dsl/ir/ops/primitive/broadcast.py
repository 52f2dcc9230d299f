"""The linear pair that elaboration makes every stretching of shapes explicit with."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.primitive.leaf import Constant, Number
from meganeura_dsl.ir.ops.type_rules import (
    NUMBERS,
    concrete_shape,
    require_at_least,
    require_axes,
    require_dtype,
    require_length,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Broadcast", "Sum"]


@dataclass(frozen=True)
class Sum(Op):
    """Sum over axes, which disappear. The cotangent is spread back along them."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    axes: tuple[int, ...]

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, NUMBERS)
        require_axes(self, self.axes, x.rank)
        return x.with_shape(tuple(x.shape[axis] for axis in others(self.axes, x.rank)))

    def evaluate(self, x: Array) -> Array:
        return np.add.reduce(x, axis=self.axes, dtype=x.dtype)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        (x,) = out.operands
        return (build.add(Broadcast(x.type.shape, others(self.axes, x.type.rank)), cotangent),)

    def fusible_reduction_axes(self, rank: int) -> tuple[int, ...]:
        return self.axes


@dataclass(frozen=True)
class Broadcast(Op):
    """Axis i of the operand becomes axis `axes[i]` of the result; along the rest, values repeat."""

    operands = Operands(("x",))
    traits = frozenset({Trait.VIEW, Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    shape: Shape
    axes: tuple[int, ...]

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_length(self, "axes", self.axes, x.rank)
        require_axes(self, self.axes, len(self.shape))
        require_at_least(self, facts, "shape", self.shape, 1)
        facts.require_same_shape(
            x.shape,
            tuple(self.shape[axis] for axis in self.axes),
            f"{title(self)} keeps the sizes of its operand",
        )
        return x.with_shape(self.shape)

    def evaluate(self, x: Array) -> Array:
        shape = concrete_shape(self.shape)
        spread = [1] * len(shape)
        for axis, size in zip(self.axes, x.shape, strict=True):
            spread[axis] = size
        return np.broadcast_to(x.reshape(spread), shape)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (build.add(Sum(others(self.axes, len(self.shape))), cotangent),)


OPS: tuple[type[Op], ...] = (Sum, Broadcast)


def others(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes below `rank` that are not among `axes`, in order."""
    return tuple(axis for axis in range(rank) if axis not in axes)


def is_zero(value: Value) -> bool:
    """True if a value is the constant 0, broadcast or not."""
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return isinstance(value.op, Constant) and value.op.value == 0


def full(build: Builder, like: TensorType, value: Number) -> Value:
    """A tensor of the type `like` with one number everywhere."""
    scalar = build.add(Constant(value, like.dtype))
    return build.add(Broadcast(like.shape, ()), scalar) if like.shape else scalar
