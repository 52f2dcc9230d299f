"""The second tier: fused ops, which the optimizer introduces and a user never writes."""

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.fused.activation import Activation, ActivationGradient, SwiGLU
from meganeura_dsl.ir.ops.fused.attention import (
    Attention,
    AttentionGradient,
)
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.fused.contraction import (
    FusedConv,
    FusedConvAdd,
    FusedMatMul,
    FusedMatMulAdd,
)
from meganeura_dsl.ir.ops.fused.masked_attention import (
    MaskedAttention,
    MaskedAttentionGradient,
)
from meganeura_dsl.ir.ops.fused.norm import Norm, NormInputGradient, NormWeightGradient, ScaledNorm
from meganeura_dsl.ir.ops.fused.rotary import Rotate
from meganeura_dsl.ir.ops.fused.softmax import (
    CrossEntropy,
    CrossEntropyGradient,
    LogSoftmax,
    SoftCrossEntropy,
    SoftCrossEntropyGradient,
    Softmax,
    SoftmaxGradient,
)
from meganeura_dsl.ir.ops.fused.standardize import Standardize, StandardizeGradient, Variance
from meganeura_dsl.ir.ops.fused.winograd import (
    FusedWinogradOutput,
    FusedWinogradOutputAdd,
    WinogradInput,
    WinogradKernel,
    WinogradKernelGradient,
    WinogradOutput,
    WinogradOutputGradient,
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
    SoftCrossEntropy,
    SoftCrossEntropyGradient,
    Rotate,
    Attention,
    AttentionGradient,
    MaskedAttention,
    MaskedAttentionGradient,
    WinogradInput,
    WinogradKernel,
    WinogradOutput,
    FusedWinogradOutput,
    FusedWinogradOutputAdd,
    WinogradOutputGradient,
    WinogradKernelGradient,
)

__all__ = [
    "FUSED_OPS",
    "Activation",
    "ActivationGradient",
    "Attention",
    "AttentionGradient",
    "CrossEntropy",
    "CrossEntropyGradient",
    "Fused",
    "FusedConv",
    "FusedConvAdd",
    "FusedMatMul",
    "FusedMatMulAdd",
    "FusedWinogradOutput",
    "FusedWinogradOutputAdd",
    "LogSoftmax",
    "MaskedAttention",
    "MaskedAttentionGradient",
    "Norm",
    "NormInputGradient",
    "NormWeightGradient",
    "Rotate",
    "ScaledNorm",
    "SoftCrossEntropy",
    "SoftCrossEntropyGradient",
    "Softmax",
    "SoftmaxGradient",
    "Standardize",
    "StandardizeGradient",
    "SwiGLU",
    "Variance",
    "WinogradInput",
    "WinogradKernel",
    "WinogradKernelGradient",
    "WinogradOutput",
    "WinogradOutputGradient",
]
