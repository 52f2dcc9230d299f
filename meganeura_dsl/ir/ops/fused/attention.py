"""Attention without its matrix of scores in memory, and its gradient.

T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
2022: a kernel may walk the keys once with a running maximum, and the gradient may recompute each
weight from `AttentionNormalizer`, the logarithm of a row's sum of exponentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Value
from meganeura_dsl.ir.ops.fused.attention_scores import ScaledProduct, over_keys, width_of
from meganeura_dsl.ir.ops.fused.softmax import Softmax, softmax
from meganeura_dsl.ir.ops.primitive.broadcast import Sum, full
from meganeura_dsl.ir.ops.primitive.contraction import MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Exp, Log, Mul, StopGradient, Sub
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import require_same_type
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

Cotangents = tuple[Value | None, ...]


@dataclass(frozen=True)
class WeightedMean(ScaledProduct):
    """What attention with and without a mask share: softmax(scores) v."""

    def evaluate(self, q: Array, k: Array, v: Array, *mask: Array) -> Array:
        weights = softmax(self.scores(q, k, *mask), q.ndim - 1)
        return self.parted(np.matmul(self.joined(weights), v), q)

    def normalizer(self) -> "Normalizer":
        """The op for the logarithms of the sums."""
        raise NotImplementedError

    def gradients(self) -> tuple["AttentionGradient", ...]:
        """The op for the gradient of each operand."""
        raise NotImplementedError

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        q, k, v, *mask = out.operands
        rows = build.add(self.normalizer(), q, k, *mask)
        last = out.type.rank - 1
        level = build.add(Sum((last,)), build.add(Mul(), cotangent, out))
        operands = (q, k, v, cotangent, rows, level, *mask)
        return tuple(build.add(gradient, *operands) for gradient in self.gradients())

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
class Attention(WeightedMean):
    """softmax(scale q k^T) v."""

    def infer(self, facts: Facts, q: TensorType, k: TensorType, v: TensorType) -> TensorType:
        return self.require_values(facts, q, k, v)

    def normalizer(self) -> "Normalizer":
        return AttentionNormalizer(*self.form)

    def gradients(self) -> tuple["AttentionGradient", ...]:
        kinds = (AttentionQueryGradient, AttentionKeyGradient, AttentionValueGradient)
        return tuple(kind(*self.form) for kind in kinds)


@dataclass(frozen=True)
class Normalizer(ScaledProduct):
    """What the logarithms with and without a mask share."""

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
class AttentionNormalizer(Normalizer):
    """log(sum(exp(scale q k^T))) of each query, with which weights are exp(score - it)."""

    def infer(self, facts: Facts, q: TensorType, k: TensorType) -> TensorType:
        scores = self.require_scores(facts, q, k)
        return scores.with_shape(scores.shape[:-1])


@dataclass(frozen=True)
class AttentionGradient(ScaledProduct):
    """What the gradients share.

    With the weights P = exp(scores - rows), level = sum(dy out), dP = dy v^T and the gradient of
    the scores dS = P (dP - level):  dq = scale dS k,  dk = scale dS^T q,  dv = P^T dy.
    """

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

    def require_operands(self, facts: Facts, *operands: TensorType) -> None:
        """The types of what the gradient is computed from."""
        q, k, v, dy, rows, level, *mask = operands
        out = self.require_values(facts, q, k, v, *mask)
        require_same_type(self, facts, dy, out)
        for each in (rows, level):
            require_same_type(self, facts, each, out.with_shape(out.shape[:-1]))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, 2 * width_of(q) + 2 * width_of(v))


@dataclass(frozen=True)
class QueryGradient(AttentionGradient):
    """The gradient dq."""

    def evaluate(self, *operands: Array) -> Array:
        slopes = self.scale * self.joined(self.slopes(*operands))
        return self.parted(np.matmul(slopes, operands[1]), operands[0])

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, *_ = operands
        product = build.add(MatMul(), self.scaled_slopes_value(build, operands), k)
        return self.parted_value(build, product, q)


@dataclass(frozen=True)
class KeyGradient(AttentionGradient):
    """The gradient dk, summed over the heads that share the key."""

    def evaluate(self, *operands: Array) -> Array:
        slopes = self.scale * self.joined(self.slopes(*operands))
        return np.matmul(np.swapaxes(slopes, -1, -2), self.joined(operands[0]))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        slopes = self.scaled_slopes_value(build, operands)
        return build.add(MatMul(transpose_left=True), slopes, self.joined_value(build, operands[0]))


@dataclass(frozen=True)
class ValueGradient(AttentionGradient):
    """The gradient dv, summed over the heads that share the value."""

    def evaluate(self, *operands: Array) -> Array:
        q, k, _, dy, rows, _, *mask = operands
        weights = self.joined(self.weights(q, k, rows, *mask))
        return np.matmul(np.swapaxes(weights, -1, -2), self.joined(dy))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, _, dy, rows, _, *mask = operands
        weights = self.joined_value(build, self.weights_value(build, q, k, rows, *mask))
        return build.add(MatMul(transpose_left=True), weights, self.joined_value(build, dy))


@dataclass(frozen=True)
class AttentionQueryGradient(QueryGradient):
    """The gradient dq without a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level)
        return q


@dataclass(frozen=True)
class AttentionKeyGradient(KeyGradient):
    """The gradient dk without a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level)
        return k


@dataclass(frozen=True)
class AttentionValueGradient(ValueGradient):
    """The gradient dv without a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level)
        return v
