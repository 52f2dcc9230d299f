"""Normalisations as one op: standardise along axes, then scale and shift; and their gradients.

Layer norm is over the last axis, batch norm over all but the channels, root-mean-square norm has
no centre.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.standardize import (
    OverRows,
    Standardize,
    StandardizeGradient,
    standard_value,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, others
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Mul
from meganeura_dsl.ir.ops.type_rules import require_axes, require_same_type
from meganeura_dsl.ir.traits import Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Norm", "NormInputGradient", "NormWeightGradient", "ScaledNorm"]

Cotangents = tuple[Value | None, ...]


@dataclass(frozen=True)
class Norm(OverRows):
    """x standardised along `axes`, times a weight, plus a bias, which lie along `kept` axes."""

    operands = Operands(("x", "weight", "bias"))
    flops_per_element = 8
    eps: float
    kept: tuple[int, ...]

    @property
    def standardize(self) -> Standardize:
        """The norm without scale and shift."""
        return Standardize(self.axes, self.eps, centred=True)

    def infer(
        self, facts: Facts, x: TensorType, weight: TensorType, bias: TensorType
    ) -> TensorType:
        require_axes(self, self.kept, x.rank)
        along = x.with_shape(tuple(x.shape[axis] for axis in self.kept))
        require_same_type(self, facts, weight, along)
        require_same_type(self, facts, bias, along)
        return self.standardize.infer(facts, x)

    def evaluate(self, x: Array, weight: Array, bias: Array) -> Array:
        shape = tuple(size if axis in self.kept else 1 for axis, size in enumerate(x.shape))
        return self.standardize.evaluate(x) * weight.reshape(shape) + bias.reshape(shape)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        x, weight, _ = out.operands
        form = (self.axes, self.eps, self.kept, True)
        return (
            build.add(NormInputGradient(*form), x, weight, cotangent),
            build.add(NormWeightGradient(*form), x, cotangent),
            build.add(Sum(others(self.kept, x.type.rank)), cotangent),
        )

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, weight, bias = operands
        scaled = ScaledNorm(self.axes, self.eps, self.kept, centred=True).expand(build, (x, weight))
        return build.add(Add(), scaled, build.add(Broadcast(x.type.shape, self.kept), bias))


@dataclass(frozen=True)
class ScaledNorm(OverRows):
    """x standardised along `axes`, times a weight that lies along `kept` axes."""

    operands = Operands(("x", "weight"))
    flops_per_element = 7
    eps: float
    kept: tuple[int, ...]
    centred: bool

    @property
    def standardize(self) -> Standardize:
        """The norm without scale."""
        return Standardize(self.axes, self.eps, self.centred)

    def infer(self, facts: Facts, x: TensorType, weight: TensorType) -> TensorType:
        require_axes(self, self.kept, x.rank)
        along = x.with_shape(tuple(x.shape[axis] for axis in self.kept))
        require_same_type(self, facts, weight, along)
        return self.standardize.infer(facts, x)

    def evaluate(self, x: Array, weight: Array) -> Array:
        shape = tuple(size if axis in self.kept else 1 for axis, size in enumerate(x.shape))
        return self.standardize.evaluate(x) * weight.reshape(shape)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        x, weight = out.operands
        form = (self.axes, self.eps, self.kept, self.centred)
        return (
            build.add(NormInputGradient(*form), x, weight, cotangent),
            build.add(NormWeightGradient(*form), x, cotangent),
        )

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, weight = operands
        if others(self.kept, x.type.rank) == self.axes:
            return standard_value(build, x, self.standardize, weight)[0]
        standard = self.standardize.expand(build, (x,))
        return build.add(Mul(), standard, build.add(Broadcast(x.type.shape, self.kept), weight))


@dataclass(frozen=True)
class NormInputGradient(OverRows):
    """The cotangent of what a norm was given: that of what it standardised, from dy weight."""

    operands = Operands(("x", "weight", "cotangent"))
    flops_per_element = 13
    eps: float
    kept: tuple[int, ...]
    centred: bool

    @property
    def gradient(self) -> StandardizeGradient:
        """The gradient without the weight."""
        return StandardizeGradient(self.axes, self.eps, self.centred)

    def infer(
        self, facts: Facts, x: TensorType, weight: TensorType, cotangent: TensorType
    ) -> TensorType:
        ScaledNorm(self.axes, self.eps, self.kept, self.centred).infer(facts, x, weight)
        return self.gradient.infer(facts, x, cotangent)

    def evaluate(self, x: Array, weight: Array, cotangent: Array) -> Array:
        shape = tuple(size if axis in self.kept else 1 for axis, size in enumerate(x.shape))
        return self.gradient.evaluate(x, cotangent * weight.reshape(shape))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, weight, cotangent = operands
        if others(self.kept, x.type.rank) == self.axes:
            # The sums are those of the weight's and the bias's gradients.
            return self.gradient.scaled(build, x, cotangent, weight)
        spread = build.add(Broadcast(x.type.shape, self.kept), weight)
        return self.gradient.expand(build, (x, build.add(Mul(), cotangent, spread)))


@dataclass(frozen=True)
class NormWeightGradient(OverRows):
    """The cotangent of a norm's weight: the sum of dy y over all axes but the weight's."""

    operands = Operands(("x", "cotangent"))
    flops_per_element = 8
    eps: float
    kept: tuple[int, ...]
    centred: bool

    @property
    def standardize(self) -> Standardize:
        """The standardized values, which the weight multiplies."""
        return Standardize(self.axes, self.eps, self.centred)

    def infer(self, facts: Facts, x: TensorType, cotangent: TensorType) -> TensorType:
        require_axes(self, self.kept, x.rank)
        require_same_type(self, facts, self.standardize.infer(facts, x), cotangent)
        return x.with_shape(tuple(x.shape[axis] for axis in self.kept))

    def evaluate(self, x: Array, cotangent: Array) -> Array:
        return np.sum(cotangent * self.standardize.evaluate(x), axis=others(self.kept, x.ndim))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        x, cotangent = operands
        product = build.add(Mul(), cotangent, self.standardize.expand(build, (x,)))
        return build.add(Sum(others(self.kept, x.type.rank)), product)

    def fusible_reduction_axes(self, rank: int) -> tuple[int, ...]:
        return others(self.kept, rank)


OPS: tuple[type[Op], ...] = (Norm, ScaledNorm, NormInputGradient, NormWeightGradient)
