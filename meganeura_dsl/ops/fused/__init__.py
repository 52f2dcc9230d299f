"""The second tier: fused ops, which the optimizer introduces and a user never writes."""

from meganeura_dsl.graph.core import Op
from meganeura_dsl.ops.fused.activation import Activation, ActivationGradient, SwiGLU
from meganeura_dsl.ops.fused.attention import (
    Attention,
    AttentionKeyGradient,
    AttentionNormalizer,
    AttentionQueryGradient,
    AttentionValueGradient,
)
from meganeura_dsl.ops.fused.contraction import (
    FusedConv,
    FusedConvAdd,
    FusedMatMul,
    FusedMatMulAdd,
)
from meganeura_dsl.ops.fused.core import Fused
from meganeura_dsl.ops.fused.masked_attention import (
    MaskedAttention,
    MaskedAttentionKeyGradient,
    MaskedAttentionMaskGradient,
    MaskedAttentionNormalizer,
    MaskedAttentionQueryGradient,
    MaskedAttentionValueGradient,
)
from meganeura_dsl.ops.fused.norm import (
    Norm,
    NormInputGradient,
    NormWeightGradient,
    ScaledNorm,
)
from meganeura_dsl.ops.fused.normalize import Standardize, StandardizeGradient, Variance
from meganeura_dsl.ops.fused.softmax import (
    CrossEntropy,
    CrossEntropyGradient,
    LogSoftmax,
    Softmax,
    SoftmaxGradient,
)

FUSED_OPS: tuple[type[Op], ...] = (
    Activation,
    ActivationGradient,
    SwiGLU,
    FusedMatMul,
    FusedMatMulAdd,
    FusedConv,
    FusedConvAdd,
    Variance,
    Standardize,
    StandardizeGradient,
    Norm,
    ScaledNorm,
    NormInputGradient,
    NormWeightGradient,
    Softmax,
    SoftmaxGradient,
    LogSoftmax,
    CrossEntropy,
    CrossEntropyGradient,
    Attention,
    AttentionNormalizer,
    AttentionQueryGradient,
    AttentionKeyGradient,
    AttentionValueGradient,
    MaskedAttention,
    MaskedAttentionNormalizer,
    MaskedAttentionQueryGradient,
    MaskedAttentionKeyGradient,
    MaskedAttentionValueGradient,
    MaskedAttentionMaskGradient,
)

__all__ = [
    "FUSED_OPS",
    "Activation",
    "ActivationGradient",
    "Attention",
    "AttentionKeyGradient",
    "AttentionNormalizer",
    "AttentionQueryGradient",
    "AttentionValueGradient",
    "CrossEntropy",
    "CrossEntropyGradient",
    "Fused",
    "FusedConv",
    "FusedConvAdd",
    "FusedMatMul",
    "FusedMatMulAdd",
    "LogSoftmax",
    "MaskedAttention",
    "MaskedAttentionKeyGradient",
    "MaskedAttentionMaskGradient",
    "MaskedAttentionNormalizer",
    "MaskedAttentionQueryGradient",
    "MaskedAttentionValueGradient",
    "Norm",
    "NormInputGradient",
    "NormWeightGradient",
    "ScaledNorm",
    "Softmax",
    "SoftmaxGradient",
    "Standardize",
    "StandardizeGradient",
    "SwiGLU",
    "Variance",
]
