"""Attention with a mask: numbers that are added to the scores, which have a gradient too."""

# ruff: noqa: PLR0913, PLR0917 - the arguments of a type rule are all operands of the op

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Value
from meganeura_dsl.ir.ops.fused.attention import (
    AttentionGradient,
    KeyGradient,
    Normalizer,
    QueryGradient,
    ValueGradient,
    WeightedMean,
)
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class MaskedAttention(WeightedMean):
    """softmax(scale q k^T + mask) v."""

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, mask: TensorType
    ) -> TensorType:
        return self.require_values(facts, q, k, v, mask)

    def normalizer(self) -> Normalizer:
        return MaskedAttentionNormalizer(*self.form)

    def gradients(self) -> tuple[AttentionGradient, ...]:
        kinds = (
            MaskedAttentionQueryGradient,
            MaskedAttentionKeyGradient,
            MaskedAttentionValueGradient,
            MaskedAttentionMaskGradient,
        )
        return tuple(kind(*self.form) for kind in kinds)


@dataclass(frozen=True)
class MaskedAttentionNormalizer(Normalizer):
    """log(sum(exp(scale q k^T + mask))) of each query."""

    def infer(self, facts: Facts, q: TensorType, k: TensorType, mask: TensorType) -> TensorType:
        scores = self.require_scores(facts, q, k, mask)
        return scores.with_shape(scores.shape[:-1])


@dataclass(frozen=True)
class MaskedAttentionQueryGradient(QueryGradient):
    """The gradient dq with a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
        mask: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level, mask)
        return q


@dataclass(frozen=True)
class MaskedAttentionKeyGradient(KeyGradient):
    """The gradient dk with a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
        mask: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level, mask)
        return k


@dataclass(frozen=True)
class MaskedAttentionValueGradient(ValueGradient):
    """The gradient dv with a mask."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
        mask: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level, mask)
        return v


@dataclass(frozen=True)
class MaskedAttentionMaskGradient(AttentionGradient):
    """The gradient of the mask, which is that of the scores."""

    def infer(
        self,
        facts: Facts,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        dy: TensorType,
        rows: TensorType,
        level: TensorType,
        mask: TensorType,
    ) -> TensorType:
        self.require_operands(facts, q, k, v, dy, rows, level, mask)
        return mask

    def evaluate(self, *operands: Array) -> Array:
        return self.slopes(*operands)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return self.slopes_value(build, operands)
