"""Ops that move elements and leave their values as they are."""

from dataclasses import dataclass
from functools import reduce

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.type_rules import (
    concrete_shape,
    require_at_least,
    require_axes,
    require_length,
    require_same_dtype,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import Shape, TensorType, size_in_bytes
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size, product

__all__ = ["Concat", "Pad", "Reshape", "Reverse", "Slice", "Transpose"]


@dataclass(frozen=True)
class Reshape(Op):
    """The same elements, in row-major order, in another shape."""

    operands = Operands(("x",))
    traits = frozenset({Trait.VIEW, Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    shape: Shape

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_at_least(self, facts, "shape", self.shape, 1)
        facts.require_equal(
            product(x.shape), product(self.shape), f"{title(self)} keeps the number of elements"
        )
        return x.with_shape(self.shape)

    def evaluate(self, x: Array) -> Array:
        return x.reshape(concrete_shape(self.shape))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (build.add(Reshape(out.operands[0].type.shape), cotangent),)


@dataclass(frozen=True)
class Transpose(Op):
    """Axis i of the result is axis `permutation[i]` of the operand."""

    operands = Operands(("x",))
    traits = frozenset({Trait.VIEW, Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    permutation: tuple[int, ...]

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        if sorted(self.permutation) != list(range(x.rank)):
            shown = ", ".join(map(str, self.permutation))
            raise TypeRuleError(f"{title(self)} by ({shown}) is no permutation of {x.rank} axes")
        return x.with_shape(tuple(x.shape[axis] for axis in self.permutation))

    def evaluate(self, x: Array) -> Array:
        return np.transpose(x, self.permutation)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        inverse = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return (build.add(Transpose(tuple(inverse)), cotangent),)


@dataclass(frozen=True)
class Slice(Op):
    """From `start` up to `stop`, every `step`-th, along each axis; at least one element remains."""

    operands = Operands(("x",))
    traits = frozenset({Trait.VIEW, Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    start: Shape
    stop: Shape
    step: Shape

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        for name, sizes in (("start", self.start), ("stop", self.stop), ("step", self.step)):
            require_length(self, name, sizes, x.rank)
        require_at_least(self, facts, "start", self.start, 0)
        require_at_least(self, facts, "step", self.step, 1)
        for start, stop, size in zip(self.start, self.stop, x.shape, strict=True):
            facts.require(Compare("<", start, stop), f"{title(self)} keeps at least one element")
            facts.require(Compare("<=", stop, size), f"{title(self)} ends within the axis")
        kept = zip(self.start, self.stop, self.step, strict=True)
        return x.with_shape(tuple((stop - start - 1) // step + 1 for start, stop, step in kept))

    def evaluate(self, x: Array) -> Array:
        bounds = zip(*map(concrete_shape, (self.start, self.stop, self.step)), strict=True)
        return x[tuple(slice(*bound) for bound in bounds)]

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        shape = out.operands[0].type.shape
        axes = zip(shape, self.start, out.type.shape, self.step, strict=True)
        high = tuple(size - start - (kept - 1) * step - 1 for size, start, kept, step in axes)
        interior = tuple(step - 1 for step in self.step)
        return (build.add(Pad(self.start, high, interior), cotangent),)

    def bytes_read(self, operand: TensorType, result: TensorType) -> int:
        return size_in_bytes(result)


@dataclass(frozen=True)
class Pad(Op):
    """Zeros around and, `interior` of them, between the elements of each axis."""

    operands = Operands(("x",))
    traits = frozenset({Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    low: Shape
    high: Shape
    interior: Shape

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        for name, sizes in (("low", self.low), ("high", self.high), ("interior", self.interior)):
            require_length(self, name, sizes, x.rank)
            require_at_least(self, facts, name, sizes, 0)
        axes = zip(self.low, x.shape, self.interior, self.high, strict=True)
        return x.with_shape(
            tuple(low + size + (size - 1) * interior + high for low, size, interior, high in axes)
        )

    def evaluate(self, x: Array) -> Array:
        low, high, interior = map(concrete_shape, (self.low, self.high, self.interior))
        spread = tuple(n + (n - 1) * gap for n, gap in zip(x.shape, interior, strict=True))
        shape = tuple(sum(sizes) for sizes in zip(low, spread, high, strict=True))
        slices = zip(low, spread, interior, strict=True)
        result = np.zeros(shape, x.dtype)
        result[tuple(slice(start, start + n, gap + 1) for start, n, gap in slices)] = x
        return result

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        stop = tuple(size - high for size, high in zip(out.type.shape, self.high, strict=True))
        step = tuple(interior + 1 for interior in self.interior)
        return (build.add(Slice(self.low, stop, step), cotangent),)


@dataclass(frozen=True)
class Concat(Op):
    """Operands one after another along an axis; their other axes are equal."""

    operands = Operands(variadic="parts")
    traits = frozenset({Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    axis: int

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        if not operands:
            raise TypeRuleError(f"{title(self)} takes at least one operand")
        first = operands[0]
        require_axes(self, (self.axis,), first.rank)
        for other in operands[1:]:
            require_same_dtype(self, first, other)
            if other.rank != first.rank:
                ranks = f"{first.rank} and {other.rank}"
                raise TypeRuleError(f"{title(self)} joins tensors of one rank, not of {ranks} axes")
            facts.require_same_shape(
                self._around(first), self._around(other), f"{title(self)} joins along one axis only"
            )
        joined = reduce(lambda total, operand: total + operand.shape[self.axis], operands, _ZERO)
        return first.with_shape((*first.shape[: self.axis], joined, *first.shape[self.axis + 1 :]))

    def _around(self, operand: TensorType) -> Shape:
        return operand.shape[: self.axis] + operand.shape[self.axis + 1 :]

    def evaluate(self, *operands: Array) -> Array:
        return np.concatenate(operands, axis=self.axis)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        parts: list[Value] = []
        start: Size = 0
        for operand in out.operands:
            stop = start + operand.type.shape[self.axis]
            parts.append(_between(build, cotangent, self.axis, start, stop))
            start = stop
        return tuple(parts)


_ZERO: Size = 0


def _between(build: Builder, x: Value, axis: int, start: Size, stop: Size) -> Value:
    starts = tuple(start if at == axis else 0 for at in range(x.type.rank))
    stops = tuple(stop if at == axis else size for at, size in enumerate(x.type.shape))
    return build.add(Slice(starts, stops, (1,) * x.type.rank), x)


@dataclass(frozen=True)
class Reverse(Op):
    """The elements in opposite order along axes."""

    operands = Operands(("x",))
    traits = frozenset({Trait.VIEW, Trait.MOVEMENT})
    element_cost = ElementCost.FREE
    axes: tuple[int, ...]

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_axes(self, self.axes, x.rank)
        return x

    def evaluate(self, x: Array) -> Array:
        return np.flip(x, self.axes)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (build.add(self, cotangent),)


OPS: tuple[type[Op], ...] = (Reshape, Transpose, Slice, Pad, Concat, Reverse)
