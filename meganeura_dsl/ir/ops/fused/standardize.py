"""Numbers brought to mean 0 and variance 1 along axes; what all normalisations have in common.

Statistics are those of the numbers at hand, never running ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, full, others
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Div, Mul, Sqrt, Sub
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete_shape,
    require_axes,
    require_dtype,
    require_same_type,
)
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import TensorType, element_count
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Standardize", "StandardizeGradient", "Variance"]

Cotangents = tuple[Value | None, ...]


@dataclass(frozen=True)
class OverRows(Fused, abstract=True):
    """An op that needs statistics of rows: of the elements that differ only along `axes`."""

    traits = frozenset({Trait.REDUCTION})
    axes: tuple[int, ...]

    def fusible_reduction_axes(self, rank: int) -> tuple[int, ...]:
        return self.axes


@dataclass(frozen=True)
class Variance(OverRows):
    """The mean of (x - mean(x))**2 along axes, which disappear."""

    operands = Operands(("x",))
    flops_per_element = 4

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        return Sum(self.axes).infer(facts, x)

    def evaluate(self, x: Array) -> Array:
        return np.var(x, axis=self.axes)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # d var(x) = 2 / n (x - mean(x)) dx
        (x,) = out.operands
        twice = full(build, cotangent.type, 2 / _count(x.type, self.axes))
        factor = _spread(build, build.add(Mul(), twice, cotangent), x.type, self.axes)
        return (build.add(Mul(), factor, _centred(build, x, self.axes)),)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (x,) = operands
        return _mean_square(build, _centred(build, x, self.axes), self.axes)


@dataclass(frozen=True)
class Standardize(OverRows):
    """(x - m) / sqrt(mean((x - m)**2) + eps) along axes; m is the mean, or 0 if not `centred`."""

    operands = Operands(("x",))
    flops_per_element = 6
    eps: float
    centred: bool

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        require_axes(self, self.axes, x.rank)
        return x

    def evaluate(self, x: Array) -> Array:
        return _standard(x, self)[0]

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        gradient = StandardizeGradient(self.axes, self.eps, self.centred)
        return (build.add(gradient, out.operands[0], cotangent),)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return standard_value(build, operands[0], self)[0]


@dataclass(frozen=True)
class StandardizeGradient(OverRows):
    """The cotangent of what was standardised to y: r (dy - mean(dy) - y mean(dy y)).

    r = 1 / sqrt(var + eps); without a centre the mean of dy is not subtracted.
    """

    operands = Operands(("x", "cotangent"))
    flops_per_element = 12
    eps: float
    centred: bool

    @property
    def standardize(self) -> Standardize:
        """The op of which this is the gradient."""
        return Standardize(self.axes, self.eps, self.centred)

    def infer(self, facts: Facts, x: TensorType, cotangent: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        require_axes(self, self.axes, x.rank)
        require_same_type(self, facts, x, cotangent)
        return x

    def evaluate(self, x: Array, cotangent: Array) -> Array:
        y, root = _standard(x, self.standardize)
        part = y * np.mean(cotangent * y, axis=self.axes, keepdims=True)
        if self.centred:
            part = part + np.mean(cotangent, axis=self.axes, keepdims=True)
        return (cotangent - part) / root

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return self.scaled(build, *operands)

    def scaled(
        self, build: Builder, x: Value, cotangent: Value, weight: Value | None = None
    ) -> Value:
        """The same times a weight that lies along the axes that are left, in primitives."""
        y, factor = standard_value(build, x, self.standardize)
        along = _mean(build, build.add(Mul(), cotangent, y), self.axes)
        part = build.add(Mul(), y, _spread(build, along, x.type, self.axes))
        if self.centred:
            level = _spread(build, _mean(build, cotangent, self.axes), x.type, self.axes)
            part = build.add(Add(), part, level)
        rest = build.add(Sub(), cotangent, part)
        scale = factor if weight is None else build.add(Mul(), factor, weight)
        return build.add(Mul(), rest, _spread(build, scale, x.type, self.axes))


OPS: tuple[type[Op], ...] = (Variance, Standardize, StandardizeGradient)


def _standard(x: Array, by: Standardize) -> tuple[Array, Array]:
    """The standardised numbers, and the root they were divided by."""
    if by.centred:
        x = x - np.mean(x, axis=by.axes, keepdims=True)
    root = np.sqrt(np.mean(x * x, axis=by.axes, keepdims=True) + by.eps)
    return x / root, root


def standard_value(
    build: Builder, x: Value, by: Standardize, weight: Value | None = None
) -> tuple[Value, Value]:
    """The standardised numbers, and what they were multiplied with: 1 / root, times a weight."""
    if by.centred:
        x = _centred(build, x, by.axes)
    square = _mean_square(build, x, by.axes)
    root = build.add(Sqrt(), build.add(Add(), square, full(build, square.type, by.eps)))
    one = full(build, root.type, 1) if weight is None else weight
    factor = build.add(Div(), one, root)
    return build.add(Mul(), x, _spread(build, factor, x.type, by.axes)), factor


def _centred(build: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    return build.add(Sub(), x, _spread(build, _mean(build, x, axes), x.type, axes))


def _mean_square(build: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    return _mean(build, build.add(Mul(), x, x), axes)


def _mean(build: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    total = build.add(Sum(axes), x)
    return build.add(Div(), total, full(build, total.type, _count(x.type, axes)))


def _spread(build: Builder, x: Value, like: TensorType, axes: tuple[int, ...]) -> Value:
    return build.add(Broadcast(like.shape, others(axes, like.rank)), x)


def _count(of: TensorType, axes: tuple[int, ...]) -> int:
    shape = concrete_shape(of.shape)
    return element_count(of.with_shape(tuple(shape[axis] for axis in axes)))
