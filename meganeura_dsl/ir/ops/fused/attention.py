"""Attention without its matrix of scores in memory, and its gradient.

T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
2022: a kernel may walk the keys once with a running maximum, and the gradient may recompute each
weight from `AttentionNormalizer`, the logarithm of a row's sum of exponentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.attention_scores import ScaledProduct, over_keys, width_of
from meganeura_dsl.ir.ops.fused.softmax import Softmax, softmax
from meganeura_dsl.ir.ops.primitive.broadcast import Sum, full
from meganeura_dsl.ir.ops.primitive.contraction import MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Exp, Log, Mul, StopGradient, Sub
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import require_same_type
from meganeura_dsl.ir.traits import Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = [
    "Attention",
    "AttentionKeyGradient",
    "AttentionMaskGradient",
    "AttentionNormalizer",
    "AttentionQueryGradient",
    "AttentionValueGradient",
]

Cotangents = tuple[Value | None, ...]


@dataclass(frozen=True)
class Attention(ScaledProduct):
    """softmax(scale q k^T + mask) v."""

    operands = Operands(("q", "k", "v"), optional=("mask",))

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, *mask: TensorType
    ) -> TensorType:
        return self.require_values(facts, q, k, v, *mask)

    def evaluate(self, q: Array, k: Array, v: Array, *mask: Array) -> Array:
        weights = softmax(self.scores(q, k, *mask), q.ndim - 1)
        return self.parted(np.matmul(self.joined(weights), v), q)

    def normalizer(self) -> "AttentionNormalizer":
        """The op for the logarithms of the sums."""
        return AttentionNormalizer(*self.form)

    def gradients(self, *, masked: bool = False) -> tuple["AttentionGradient", ...]:
        """The op for the gradient of each operand."""
        return tuple(kind(*self.form) for kind in (GRADIENTS if masked else GRADIENTS[:-1]))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        q, k, v, *mask = out.operands
        rows = build.add(self.normalizer(), q, k, *mask)
        last = out.type.rank - 1
        level = build.add(Sum((last,)), build.add(Mul(), cotangent, out))
        operands = (q, k, v, cotangent, rows, level, *mask)
        gradients = self.gradients(masked=bool(mask))
        return tuple(build.add(gradient, *operands) for gradient in gradients)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, v, *mask = operands
        scores = self.scores_value(build, q, k, *mask)
        weights = Softmax(scores.type.rank - 1).expand(build, (scores,))
        mean = build.add(MatMul(), self.joined_value(build, weights), v)
        return self.parted_value(build, mean, q)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, width_of(q) + width_of(v))


@dataclass(frozen=True)
class AttentionNormalizer(ScaledProduct):
    """log(sum(exp(scale q k^T + mask))) of each query, with which weights are exp(score - it)."""

    operands = Operands(("q", "k"), optional=("mask",))

    def infer(self, facts: Facts, q: TensorType, k: TensorType, *mask: TensorType) -> TensorType:
        scores = self.require_scores(facts, q, k, *mask)
        return scores.with_shape(scores.shape[:-1])

    def evaluate(self, q: Array, k: Array, *mask: Array) -> Array:
        scores = self.scores(q, k, *mask)
        largest = np.max(scores, axis=-1)
        return largest + np.log(np.sum(np.exp(scores - largest[..., None]), axis=-1))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        scores = self.scores_value(build, *operands)
        last = scores.type.rank - 1
        largest = build.add(StopGradient(), build.add(ReduceMax((last,)), scores))
        powers = build.add(Exp(), build.add(Sub(), scores, over_keys(build, largest, scores)))
        return build.add(Add(), largest, build.add(Log(), build.add(Sum((last,)), powers)))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, *_ = operands
        return self.products(q, k, width_of(q))


@dataclass(frozen=True)
class AttentionGradient(ScaledProduct, abstract=True):
    """What the gradients share.

    With the weights P = exp(scores - rows), level = sum(dy out), dP = dy v^T and the gradient of
    the scores dS = P (dP - level):  dq = scale dS k,  dk = scale dS^T q,  dv = P^T dy.
    """

    operands = Operands(("q", "k", "v", "dy", "rows", "level"), optional=("mask",))
    of: ClassVar[str]
    """The operand that it is the gradient of."""

    def weights(self, q: Array, k: Array, rows: Array, *mask: Array) -> Array:
        """The weights P."""
        return np.exp(self.scores(q, k, *mask) - rows[..., None])

    def slopes(self, *operands: Array) -> Array:
        """The gradient of the scores, which is 0 where P is."""
        q, k, v, dy, rows, level, *mask = operands
        inner = np.matmul(self.joined(dy), np.swapaxes(v, -1, -2))
        return self.weights(q, k, rows, *mask) * (self.parted(inner, q) - level[..., None])

    def weights_value(self, build: Builder, q: Value, k: Value, rows: Value, *mask: Value) -> Value:
        """The weights P in primitives."""
        scores = self.scores_value(build, q, k, *mask)
        return build.add(Exp(), build.add(Sub(), scores, over_keys(build, rows, scores)))

    def slopes_value(self, build: Builder, operands: Sequence[Value]) -> Value:
        """The gradient of the scores in primitives."""
        q, k, v, dy, rows, level, *mask = operands
        weights = self.weights_value(build, q, k, rows, *mask)
        inner = build.add(MatMul(transpose_right=True), self.joined_value(build, dy), v)
        inner = self.parted_value(build, inner, q)
        inner = build.add(Sub(), inner, over_keys(build, level, inner))
        return build.add(Mul(), weights, inner)

    def scaled_slopes_value(self, build: Builder, operands: Sequence[Value]) -> Value:
        """The gradient of the unscaled products, heads that share keys as one."""
        slopes = self.slopes_value(build, operands)
        scaled = build.add(Mul(), full(build, slopes.type, self.scale), slopes)
        return self.joined_value(build, scaled)

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        q, k, v, dy, rows, level, *mask = operands
        out = self.require_values(facts, q, k, v, *mask)
        require_same_type(self, facts, dy, out)
        for each in (rows, level):
            require_same_type(self, facts, each, out.with_shape(out.shape[:-1]))
        return dict(zip(self.operands.names, operands, strict=False))[self.of]

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, 2 * width_of(q) + 2 * width_of(v))


@dataclass(frozen=True)
class AttentionQueryGradient(AttentionGradient):
    """The gradient dq."""

    of = "q"

    def evaluate(self, *operands: Array) -> Array:
        slopes = self.scale * self.joined(self.slopes(*operands))
        return self.parted(np.matmul(slopes, operands[1]), operands[0])

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, *_ = operands
        product = build.add(MatMul(), self.scaled_slopes_value(build, operands), k)
        return self.parted_value(build, product, q)


@dataclass(frozen=True)
class AttentionKeyGradient(AttentionGradient):
    """The gradient dk, summed over the heads that share the key."""

    of = "k"

    def evaluate(self, *operands: Array) -> Array:
        slopes = self.scale * self.joined(self.slopes(*operands))
        return np.matmul(np.swapaxes(slopes, -1, -2), self.joined(operands[0]))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        slopes = self.scaled_slopes_value(build, operands)
        return build.add(MatMul(transpose_left=True), slopes, self.joined_value(build, operands[0]))


@dataclass(frozen=True)
class AttentionValueGradient(AttentionGradient):
    """The gradient dv, summed over the heads that share the value."""

    of = "v"

    def evaluate(self, *operands: Array) -> Array:
        q, k, _, dy, rows, _, *mask = operands
        weights = self.joined(self.weights(q, k, rows, *mask))
        return np.matmul(np.swapaxes(weights, -1, -2), self.joined(dy))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, _, dy, rows, _, *mask = operands
        weights = self.joined_value(build, self.weights_value(build, q, k, rows, *mask))
        return build.add(MatMul(transpose_left=True), weights, self.joined_value(build, dy))


@dataclass(frozen=True)
class AttentionMaskGradient(AttentionGradient):
    """The gradient of the mask, which is that of the scores."""

    operands = Operands((*AttentionGradient.operands.required, "mask"))
    of = "mask"

    def evaluate(self, *operands: Array) -> Array:
        return self.slopes(*operands)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return self.slopes_value(build, operands)


GRADIENTS: tuple[type[AttentionGradient], ...] = (
    AttentionQueryGradient,
    AttentionKeyGradient,
    AttentionValueGradient,
    AttentionMaskGradient,
)
OPS: tuple[type[Op], ...] = (Attention, AttentionNormalizer, *GRADIENTS)
