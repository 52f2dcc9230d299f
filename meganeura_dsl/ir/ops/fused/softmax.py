"""Softmax in all its forms: alone, as a logarithm, and inside cross-entropy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, Sum, full, others
from meganeura_dsl.ir.ops.primitive.elementwise import (
    Cast,
    Compare,
    Div,
    Exp,
    Log,
    Mul,
    Neg,
    StopGradient,
    Sub,
    Where,
)
from meganeura_dsl.ir.ops.primitive.leaf import Iota
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete,
    require_axes,
    require_dtype,
    require_same_type,
)
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = [
    "CrossEntropy",
    "CrossEntropyGradient",
    "LogSoftmax",
    "SoftCrossEntropy",
    "SoftCrossEntropyGradient",
    "Softmax",
    "SoftmaxGradient",
]

Cotangents = tuple[Value | None, ...]


@dataclass(frozen=True)
class Softmax(Fused):
    """exp(x) / sum(exp(x)) along one axis, safe from overflow."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 5
    axis: int

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        require_axes(self, (self.axis,), x.rank)
        return x

    def evaluate(self, x: Array) -> Array:
        return softmax(x, self.axis)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        return (build.add(SoftmaxGradient(self.axis), out, cotangent),)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        powers = build.add(Exp(), _shifted(build, operands[0], self.axis))
        total = build.add(Sum((self.axis,)), powers)
        return build.add(Div(), powers, _spread(build, total, powers, self.axis))


@dataclass(frozen=True)
class SoftmaxGradient(Fused):
    """The cotangent of what softmax made y of: y (dy - sum(dy y))."""

    operands = Operands(("y", "cotangent"))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 4
    axis: int

    def infer(self, facts: Facts, y: TensorType, cotangent: TensorType) -> TensorType:
        require_dtype(self, y, FLOATS)
        require_axes(self, (self.axis,), y.rank)
        require_same_type(self, facts, y, cotangent)
        return y

    def evaluate(self, y: Array, cotangent: Array) -> Array:
        return y * (cotangent - np.sum(cotangent * y, axis=self.axis, keepdims=True))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        y, cotangent = operands
        level = build.add(Sum((self.axis,)), build.add(Mul(), cotangent, y))
        rest = build.add(Sub(), cotangent, _spread(build, level, y, self.axis))
        return build.add(Mul(), y, rest)


@dataclass(frozen=True)
class LogSoftmax(Fused):
    """x - log(sum(exp(x))) along one axis, safe from overflow."""

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 5
    axis: int

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        require_axes(self, (self.axis,), x.rank)
        return x

    def evaluate(self, x: Array) -> Array:
        shifted = x - np.max(x, axis=self.axis, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=self.axis, keepdims=True))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        # dx = dy - softmax(x) sum(dy)
        (x,) = out.operands
        level = _spread(build, build.add(Sum((self.axis,)), cotangent), x, self.axis)
        share = build.add(Mul(), build.add(Softmax(self.axis), x), level)
        return (build.add(Sub(), cotangent, share),)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        shifted = _shifted(build, operands[0], self.axis)
        total = build.add(Log(), build.add(Sum((self.axis,)), build.add(Exp(), shifted)))
        return build.add(Sub(), shifted, _spread(build, total, shifted, self.axis))


@dataclass(frozen=True)
class CrossEntropy(Fused):
    """-log softmax(logits) of each row's label, an i32 that is one of the classes.

    A label outside the classes costs nothing, as in the language's own definition.
    """

    operands = Operands(("logits", "labels"))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 6

    def infer(self, facts: Facts, logits: TensorType, labels: TensorType) -> TensorType:
        require_dtype(self, logits, FLOATS)
        require_dtype(self, labels, (DType.I32,))
        rows = logits.with_shape(logits.shape[:-1])
        require_same_type(self, facts, rows, labels.with_dtype(logits.dtype))
        return rows

    def evaluate(self, logits: Array, labels: Array) -> Array:
        picked = _is_picked(logits, labels)
        return -np.sum(np.where(picked, LogSoftmax(logits.ndim - 1).evaluate(logits), 0), axis=-1)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        logits, labels = out.operands
        return build.add(CrossEntropyGradient(), logits, labels, cotangent), None

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        logits, labels = operands
        last = logits.type.rank - 1
        logs = LogSoftmax(last).expand(build, (logits,))
        picked = build.add(Where(), _picked(build, logits, labels), logs, full(build, logs.type, 0))
        return build.add(Neg(), build.add(Sum((last,)), picked))


@dataclass(frozen=True)
class CrossEntropyGradient(Fused):
    """The cotangent of the logits: (softmax(logits) - 1 at the label) times the row's cotangent.

    A row whose label is outside the classes has none.
    """

    operands = Operands(("logits", "labels", "cotangent"))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 7

    def infer(
        self, facts: Facts, logits: TensorType, labels: TensorType, cotangent: TensorType
    ) -> TensorType:
        require_same_type(self, facts, CrossEntropy().infer(facts, logits, labels), cotangent)
        return logits

    def evaluate(self, logits: Array, labels: Array, cotangent: Array) -> Array:
        picked = _is_picked(logits, labels)
        share = softmax(logits, logits.ndim - 1) * np.any(picked, axis=-1, keepdims=True)
        return (share - picked) * cotangent[..., None]

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        logits, labels, cotangent = operands
        last = logits.type.rank - 1
        picked = build.add(Cast(logits.type.dtype), _picked(build, logits, labels))
        known = _spread(build, build.add(Sum((last,)), picked), logits, last)
        share = build.add(Mul(), Softmax(last).expand(build, (logits,)), known)
        rest = build.add(Sub(), share, picked)
        return build.add(Mul(), rest, _spread(build, cotangent, logits, last))


@dataclass(frozen=True)
class SoftCrossEntropy(Fused):
    """-sum(labels log softmax(logits)) of each row, whose labels are a weight for every class.

    Labels of a distribution sum to 1; others are taken as they are.
    """

    operands = Operands(("logits", "labels"))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 7

    def infer(self, facts: Facts, logits: TensorType, labels: TensorType) -> TensorType:
        require_dtype(self, logits, FLOATS)
        require_axes(self, (logits.rank - 1,), logits.rank)
        require_same_type(self, facts, logits, labels)
        return logits.with_shape(logits.shape[:-1])

    def evaluate(self, logits: Array, labels: Array) -> Array:
        return -np.sum(labels * LogSoftmax(logits.ndim - 1).evaluate(logits), axis=-1)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        logits, labels = out.operands
        last = logits.type.rank - 1
        level = _spread(build, build.add(Neg(), cotangent), logits, last)
        to_labels = build.add(Mul(), build.add(LogSoftmax(last), logits), level)
        return build.add(SoftCrossEntropyGradient(), logits, labels, cotangent), to_labels

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        logits, labels = operands
        last = logits.type.rank - 1
        weighed = build.add(Mul(), labels, LogSoftmax(last).expand(build, (logits,)))
        return build.add(Neg(), build.add(Sum((last,)), weighed))


@dataclass(frozen=True)
class SoftCrossEntropyGradient(Fused):
    """The cotangent of the logits: (softmax(logits) sum(labels) - labels) times the row's."""

    operands = Operands(("logits", "labels", "cotangent"))
    traits = frozenset({Trait.REDUCTION})
    flops_per_element = 8

    def infer(
        self, facts: Facts, logits: TensorType, labels: TensorType, cotangent: TensorType
    ) -> TensorType:
        rows = SoftCrossEntropy().infer(facts, logits, labels)
        require_same_type(self, facts, rows, cotangent)
        return logits

    def evaluate(self, logits: Array, labels: Array, cotangent: Array) -> Array:
        total = np.sum(labels, axis=-1, keepdims=True)
        return (softmax(logits, logits.ndim - 1) * total - labels) * cotangent[..., None]

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        logits, labels, cotangent = operands
        last = logits.type.rank - 1
        total = _spread(build, build.add(Sum((last,)), labels), logits, last)
        share = build.add(Mul(), Softmax(last).expand(build, (logits,)), total)
        rest = build.add(Sub(), share, labels)
        return build.add(Mul(), rest, _spread(build, cotangent, logits, last))


OPS: tuple[type[Op], ...] = (
    Softmax,
    SoftmaxGradient,
    LogSoftmax,
    CrossEntropy,
    CrossEntropyGradient,
    SoftCrossEntropy,
    SoftCrossEntropyGradient,
)


def softmax(x: Array, axis: int) -> Array:
    """Softmax of an array."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _shifted(build: Builder, x: Value, axis: int) -> Value:
    largest = build.add(StopGradient(), build.add(ReduceMax((axis,)), x))
    return build.add(Sub(), x, _spread(build, largest, x, axis))


def _spread(build: Builder, x: Value, like: Value, axis: int) -> Value:
    return build.add(Broadcast(like.type.shape, others((axis,), like.type.rank)), x)


def _is_picked(logits: Array, labels: Array) -> Array:
    classes = np.arange(int(logits.shape[-1]))
    return np.equal(classes, np.expand_dims(labels, -1))


def _picked(build: Builder, logits: Value, labels: Value) -> Value:
    """Returns a bool for each row and class: true where the class is the row's label."""
    shape, last = logits.type.shape, logits.type.rank - 1
    classes = build.add(Iota(concrete(shape[-1])))
    wanted = build.add(Broadcast(shape, tuple(range(last))), labels)
    return build.add(Compare("eq"), wanted, build.add(Broadcast(shape, (last,)), classes))
