"""Attention without its matrix of scores in memory, and its gradient.

T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
2022: a kernel may walk the keys once with a running maximum, and the gradient may recompute each
weight from `AttentionNormalizer`, the logarithm of a row's sum of exponentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.graph.core import Array, Builder, TypeRuleError, Value
from meganeura_dsl.ops.broadcast import Broadcast, Sum, full
from meganeura_dsl.ops.contract import MatMul
from meganeura_dsl.ops.elementwise import Add, Compare, Exp, Log, Mul, StopGradient, Sub, Where
from meganeura_dsl.ops.fused.core import Fused, elements
from meganeura_dsl.ops.fused.softmax import Softmax, softmax
from meganeura_dsl.ops.leaf import Iota
from meganeura_dsl.ops.reduce import ReduceMax
from meganeura_dsl.ops.rules import concrete_shape, require_same_type, title
from meganeura_dsl.shapes.solve import Facts
from meganeura_dsl.shapes.tensor import TensorType

Cotangents = tuple[Value | None, ...]
HIDDEN = -1e30
"""The score of a position ahead, as the standard library writes it."""


@dataclass(frozen=True)
class ScaledProduct(Fused):
    """What all attention ops share: scores scale q k^T; if `causal`, no row looks ahead."""

    scale: float
    causal: bool

    def scores(self, q: Array, k: Array) -> Array:
        """The scores of every query with every key."""
        product = np.matmul(q, np.swapaxes(k, -1, -2)) * self.scale
        if not self.causal:
            return product
        ahead: Array = np.triu(np.ones(product.shape[-2:], np.bool_), 1)
        return np.where(ahead, HIDDEN, product)

    def scores_value(self, build: Builder, q: Value, k: Value) -> Value:
        """The scores in primitives."""
        product = build.add(MatMul(transpose_right=True), q, k)
        scaled = build.add(Mul(), product, full(build, product.type, self.scale))
        return self.hidden(build, scaled, HIDDEN) if self.causal else scaled

    def hidden(self, build: Builder, x: Value, value: float) -> Value:
        """The tensor [..., s, t] x with `value` wherever a column is ahead of its row."""
        shape = x.type.shape
        rows, columns = concrete_shape(shape[-2:])
        down = build.add(Broadcast((rows, columns), (0,)), build.add(Iota(rows)))
        along = build.add(Broadcast((rows, columns), (1,)), build.add(Iota(columns)))
        ahead = build.add(Compare("gt"), along, down)
        everywhere = build.add(Broadcast(shape, (len(shape) - 2, len(shape) - 1)), ahead)
        return build.add(Where(), everywhere, full(build, x.type, value), x)

    def require_queries(self, facts: Facts, q: TensorType, k: TensorType) -> TensorType:
        """The type of the scores."""
        scores = MatMul(transpose_right=True).infer(facts, q, k)
        if scores.rank < 3:
            raise TypeRuleError(f"{title(self)} takes batches, not {q}")
        if self.causal:
            rows, columns = scores.shape[-2:]
            facts.require_equal(rows, columns, f"causal {title(self)} has a key for each query")
        return scores

    def products(self, queries: TensorType, keys: TensorType, width: int) -> int:
        """The arithmetic of one product with the matrix of scores."""
        return 2 * elements(queries) // concrete_shape(queries.shape)[-1] * keys_of(keys) * width


@dataclass(frozen=True)
class Attention(ScaledProduct):
    """softmax(scale q k^T) v."""

    def infer(self, facts: Facts, q: TensorType, k: TensorType, v: TensorType) -> TensorType:
        return MatMul().infer(facts, self.require_queries(facts, q, k), v)

    def evaluate(self, q: Array, k: Array, v: Array) -> Array:
        return np.matmul(softmax(self.scores(q, k), q.ndim - 1), v)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> Cotangents:
        q, k, v = out.operands
        rows = build.add(AttentionNormalizer(self.scale, self.causal), q, k)
        last = out.type.rank - 1
        level = build.add(Sum((last,)), build.add(Mul(), cotangent, out))
        kinds = (AttentionQueryGradient, AttentionKeyGradient, AttentionValueGradient)
        operands = (q, k, v, cotangent, rows, level)
        return tuple(build.add(kind(self.scale, self.causal), *operands) for kind in kinds)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, v = operands
        scores = self.scores_value(build, q, k)
        return build.add(MatMul(), Softmax(scores.type.rank - 1).expand(build, (scores,)), v)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v = operands
        return self.products(q, k, width_of(q) + width_of(v))


@dataclass(frozen=True)
class AttentionNormalizer(ScaledProduct):
    """log(sum(exp(scale q k^T))) of each query, with which weights are exp(score - it)."""

    def infer(self, facts: Facts, q: TensorType, k: TensorType) -> TensorType:
        scores = self.require_queries(facts, q, k)
        return scores.with_shape(scores.shape[:-1])

    def evaluate(self, q: Array, k: Array) -> Array:
        scores = self.scores(q, k)
        largest = np.max(scores, axis=-1)
        return largest + np.log(np.sum(np.exp(scores - largest[..., None]), axis=-1))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        scores = self.scores_value(build, *operands)
        last = scores.type.rank - 1
        largest = build.add(StopGradient(), build.add(ReduceMax((last,)), scores))
        powers = build.add(Exp(), build.add(Sub(), scores, over_keys(build, largest, scores)))
        return build.add(Add(), largest, build.add(Log(), build.add(Sum((last,)), powers)))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k = operands
        return self.products(q, k, width_of(q))


@dataclass(frozen=True)
class AttentionGradient(ScaledProduct):
    """What the three gradients share.

    With the weights P = exp(scores - rows), level = sum(dy out) and dP = dy v^T:
    dS = scale P (dP - level),  dq = dS k,  dk = dS^T q,  dv = P^T dy.
    """

    def weights(self, q: Array, k: Array, rows: Array) -> Array:
        """The weights P."""
        return np.exp(self.scores(q, k) - rows[..., None])

    def slopes(self, q: Array, k: Array, v: Array, dy: Array, rows: Array, level: Array) -> Array:
        """The slopes dS, which are 0 where P is."""
        inner = np.matmul(dy, np.swapaxes(v, -1, -2)) - level[..., None]
        return self.scale * self.weights(q, k, rows) * inner

    def weights_value(self, build: Builder, q: Value, k: Value, rows: Value) -> Value:
        """The weights P in primitives."""
        scores = self.scores_value(build, q, k)
        return build.add(Exp(), build.add(Sub(), scores, over_keys(build, rows, scores)))

    def slopes_value(self, build: Builder, operands: Sequence[Value]) -> Value:
        """The slopes dS in primitives."""
        q, k, v, dy, rows, level = operands
        weights = self.weights_value(build, q, k, rows)
        inner = build.add(MatMul(transpose_right=True), dy, v)
        inner = build.add(Sub(), inner, over_keys(build, level, inner))
        product = build.add(Mul(), weights, inner)
        return build.add(Mul(), full(build, product.type, self.scale), product)

    def require_operands(self, facts: Facts, operands: Sequence[TensorType]) -> None:
        """The types of what the gradient is computed from."""
        q, k, v, dy, rows, level = operands
        out = Attention(self.scale, self.causal).infer(facts, q, k, v)
        require_same_type(self, facts, dy, out)
        for each in (rows, level):
            require_same_type(self, facts, each, out.with_shape(out.shape[:-1]))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, 2 * width_of(q) + 2 * width_of(v))


@dataclass(frozen=True)
class AttentionQueryGradient(AttentionGradient):
    """The gradient dq."""

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
        self.require_operands(facts, (q, k, v, dy, rows, level))
        return q

    def evaluate(self, q: Array, k: Array, v: Array, dy: Array, rows: Array, level: Array) -> Array:
        return np.matmul(self.slopes(q, k, v, dy, rows, level), k)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return build.add(MatMul(), self.slopes_value(build, operands), operands[1])


@dataclass(frozen=True)
class AttentionKeyGradient(AttentionGradient):
    """The gradient dk."""

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
        self.require_operands(facts, (q, k, v, dy, rows, level))
        return k

    def evaluate(self, q: Array, k: Array, v: Array, dy: Array, rows: Array, level: Array) -> Array:
        return np.matmul(np.swapaxes(self.slopes(q, k, v, dy, rows, level), -1, -2), q)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        slopes = self.slopes_value(build, operands)
        return build.add(MatMul(transpose_left=True), slopes, operands[0])


@dataclass(frozen=True)
class AttentionValueGradient(AttentionGradient):
    """The gradient dv."""

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
        self.require_operands(facts, (q, k, v, dy, rows, level))
        return v

    def evaluate(self, q: Array, k: Array, v: Array, dy: Array, rows: Array, level: Array) -> Array:
        return np.matmul(np.swapaxes(self.weights(q, k, rows), -1, -2), dy)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        q, k, _, dy, rows, _ = operands
        weights = self.weights_value(build, q, k, rows)
        return build.add(MatMul(transpose_left=True), weights, dy)


def over_keys(build: Builder, x: Value, scores: Value) -> Value:
    """One number per query, repeated for every key."""
    rank = scores.type.rank
    return build.add(Broadcast(scores.type.shape, tuple(range(rank - 1))), x)


def keys_of(keys: TensorType) -> int:
    """How many keys a query looks at."""
    return concrete_shape(keys.shape)[-2]


def width_of(of: TensorType) -> int:
    """The length of one vector."""
    return concrete_shape(of.shape)[-1]
