"""Attention with a mask: numbers that are added to the scores, which have a gradient too."""

# ruff: noqa: PLR0913, PLR0917 - the arguments of a type rule are all operands of the op

from dataclasses import dataclass

from meganeura_dsl.ir.ops.fused.attention import WeightedMean, WeightedMeanGradient
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class MaskedAttention(WeightedMean):
    """softmax(scale q k^T + mask) v, and the logarithm of each row's sum of exponentials."""

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, mask: TensorType
    ) -> tuple[TensorType, TensorType]:
        return self.require_results(facts, q, k, v, mask)

    @property
    def gradient(self) -> "MaskedAttentionGradient":
        return MaskedAttentionGradient(*self.form)


@dataclass(frozen=True)
class MaskedAttentionGradient(WeightedMeanGradient):
    """The gradients dq, dk and dv, and that of the mask."""

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
    ) -> tuple[TensorType, ...]:
        return self.require_results(facts, q, k, v, dy, rows, level, mask)
