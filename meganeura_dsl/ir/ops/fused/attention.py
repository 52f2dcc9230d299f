"""Attention without its matrix of scores in memory, and its gradient.

T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
2022: a kernel may walk the keys once with a running maximum, and the gradient may recompute each
weight from the logarithm of its row's sum of exponentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.fused.attention_scores import ScaledProduct, over_keys, width_of
from meganeura_dsl.ir.ops.fused.softmax import Softmax
from meganeura_dsl.ir.ops.primitive.broadcast import Sum, full
from meganeura_dsl.ir.ops.primitive.contraction import MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Exp, Log, Mul, StopGradient, Sub
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import require_same_type
from meganeura_dsl.ir.traits import Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Attention", "AttentionGradient"]


@dataclass(frozen=True)
class Attention(ScaledProduct):
    """softmax(scores) v, and log(sum(exp(scores))), where scores are scale q k^T + mask.

    The second result is one number for each query, with which weights are exp(score - it).
    """

    operands = Operands(("q", "k", "v"), optional=("mask",))
    multiple_results: ClassVar[bool] = True

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, *mask: TensorType
    ) -> tuple[TensorType, TensorType]:
        mean = self.require_values(facts, q, k, v, *mask)
        return mean, mean.with_shape(mean.shape[:-1])

    def evaluate(self, q: Array, k: Array, v: Array, *mask: Array) -> tuple[Array, Array]:
        scores = self.scores(q, k, *mask)
        largest = np.max(scores, axis=-1, keepdims=True)
        powers = np.exp(scores - largest)
        total = np.sum(powers, axis=-1, keepdims=True)
        mean = self.parted(np.matmul(self.joined(powers / total), v), q)
        return mean, np.squeeze(largest + np.log(total), -1)

    @property
    def gradient(self) -> "AttentionGradient":
        """The op for the gradients of all operands."""
        return AttentionGradient(*self.form)

    def pullback(
        self, build: Builder, out: tuple[Value, ...], cotangent: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        """The gradient of the scores is P (dP - level + drows): it takes a level less drows."""
        (mean, rows), (dy, drows) = out, cotangent
        q, k, v, *mask = mean.operands
        if dy is None:
            dy = full(build, mean.type, 0)
        level = build.add(Sum((mean.type.rank - 1,)), build.add(Mul(), dy, mean))
        if drows is not None:
            level = build.add(Sub(), level, drows)
        return build.add_all(self.gradient, q, k, v, dy, rows, level, *mask)

    def expand(self, build: Builder, operands: Sequence[Value]) -> tuple[Value, Value]:
        q, k, v, *mask = operands
        scores = self.scores_value(build, q, k, *mask)
        weights = self.weights_value(build, scores)
        last = scores.type.rank - 1
        mean = build.add(MatMul(), self.joined_value(build, weights), v)
        largest = build.add(StopGradient(), build.add(ReduceMax((last,)), scores))
        powers = build.add(Exp(), build.add(Sub(), scores, over_keys(build, largest, scores)))
        rows = build.add(Add(), largest, build.add(Log(), build.add(Sum((last,)), powers)))
        return self.parted_value(build, mean, q), rows

    def weights_value(self, build: Builder, scores: Value) -> Value:
        """Returns the weights of values, computed from the scores in primitives."""
        return Softmax(scores.type.rank - 1).expand(build, (scores,))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, width_of(q) + width_of(v))


@dataclass(frozen=True)
class AttentionGradient(ScaledProduct):
    """The gradients dq, dk and dv, and that of a mask.

    With the weights P = exp(scores - rows), or with a mask softmax(scores), level = sum(dy out),
    dP = dy v^T and the gradient of the scores dS = P (dP - level):  dq = scale dS k,
    dk = scale dS^T q,  dv = P^T dy. Those of keys and values are summed over the heads that share
    them. The gradient of a mask is dS.
    """

    operands = Operands(("q", "k", "v", "dy", "rows", "level"), optional=("mask",))
    multiple_results: ClassVar[bool] = True

    def infer(self, facts: Facts, *operands: TensorType) -> tuple[TensorType, ...]:
        q, k, v, dy, rows, level, *mask = operands
        out = self.require_values(facts, q, k, v, *mask)
        require_same_type(self, facts, dy, out)
        for each in (rows, level):
            require_same_type(self, facts, each, out.with_shape(out.shape[:-1]))
        return q, k, v, *mask

    def evaluate(self, *operands: Array) -> tuple[Array, ...]:
        q, k, v, dy, rows, level, *mask = operands
        scores = self.scores(q, k, *mask)
        # Beside scores that a mask makes enormous, a logarithm is rounded away.
        weights = (
            Softmax(scores.ndim - 1).evaluate(scores) if mask else np.exp(scores - rows[..., None])
        )
        inner = np.matmul(self.joined(dy), np.swapaxes(v, -1, -2))
        slopes = weights * (self.parted(inner, q) - level[..., None])
        scaled = self.scale * self.joined(slopes)
        return (
            self.parted(np.matmul(scaled, k), q),
            np.matmul(np.swapaxes(scaled, -1, -2), self.joined(q)),
            np.matmul(np.swapaxes(self.joined(weights), -1, -2), self.joined(dy)),
            *(slopes for _ in mask),
        )

    def expand(self, build: Builder, operands: Sequence[Value]) -> tuple[Value, ...]:
        q, k, _, _, rows, _, *mask = operands
        scores = self.scores_value(build, q, k, *mask)
        if mask:
            return self.expand_by(
                build, operands, Attention(*self.form).weights_value(build, scores)
            )
        weights = build.add(Exp(), build.add(Sub(), scores, over_keys(build, rows, scores)))
        return self.expand_by(build, operands, weights)

    def expand_by(
        self, build: Builder, operands: Sequence[Value], weights: Value
    ) -> tuple[Value, ...]:
        """The expansion by weights that are there."""
        q, k, v, dy, _, level, *mask = operands
        inner = build.add(MatMul(transpose_right=True), self.joined_value(build, dy), v)
        inner = self.parted_value(build, inner, q)
        inner = build.add(Sub(), inner, over_keys(build, level, inner))
        slopes = build.add(Mul(), weights, inner)
        scaled = build.add(Mul(), full(build, slopes.type, self.scale), slopes)
        scaled, weights = self.joined_value(build, scaled), self.joined_value(build, weights)
        turned = MatMul(transpose_left=True)
        return (
            self.parted_value(build, build.add(MatMul(), scaled, k), q),
            build.add(turned, scaled, self.joined_value(build, q)),
            build.add(turned, weights, self.joined_value(build, dy)),
            *(slopes for _ in mask),
        )

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        q, k, v, *_ = operands
        return self.products(q, k, 3 * width_of(q) + 2 * width_of(v))


OPS: tuple[type[Op], ...] = (Attention, AttentionGradient)
