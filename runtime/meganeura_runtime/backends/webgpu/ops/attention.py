"""Attention as kernels make it, in ops that only lowered graphs contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient
from meganeura_dsl.ir.ops.fused.attention_scores import width_of
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import ElementCost
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts

BESIDE = 4
"""Columns that repeat a row's normalizer beside its mean, so many that quads stay whole."""
NOTHING = -inf
"""The normalizer of no keys."""


@dataclass(frozen=True)
class FlashAttentionOp(Op, abstract=True):
    """An attention, or a gradient of one, that a kernel makes."""

    operands = Attention.operands
    traits = Attention.traits
    element_cost = ElementCost.LOAD
    whole: Attention

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Those of the whole."""
        return self.whole.flops(operands, result)


@dataclass(frozen=True)
class FlashAttention(FlashAttentionOp):
    """What `whole` gives, made by one kernel."""

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """The type of the whole."""
        return self.whole.infer(facts, *operands)

    def evaluate(self, *operands: Array) -> Array:
        """What the whole gives."""
        return self.whole.evaluate(*operands)


@dataclass(frozen=True)
class FlashAttentionSplitKV(FlashAttentionOp):
    """The means over each of `parts` parts of the keys, and beside them their normalizers."""

    parts: int

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """A row for each part and query."""
        whole = self.whole.infer(facts, *operands)
        *rows, width = concrete_shape(whole.shape)
        return whole.with_shape((self.parts, *rows, width + BESIDE))

    def evaluate(self, q: Array, k: Array, v: Array, *mask: Array) -> Array:
        """Which keys belong to a part is the kernel's business; here the first has all."""
        mean = self.whole.evaluate(q, k, v, *mask)
        rows = self.whole.normalizer().evaluate(q, k, *mask)[..., None]
        whole = np.concatenate([mean, np.repeat(rows, BESIDE, -1)], -1)
        empty = np.zeros((self.parts - 1, *whole.shape), whole.dtype)
        empty[..., -BESIDE:] = NOTHING
        return np.concatenate([whole[None], empty]).astype(q.dtype)


@dataclass(frozen=True)
class FlashAttentionBackwardKV(FlashAttentionOp):
    """Of each key the gradients dk and dv side by side."""

    operands = AttentionGradient.operands

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Those of one of them, which takes what both do."""
        return self.whole.gradients()[1].flops(operands, result)

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """A row for each key."""
        k = self.whole.gradients()[1].infer(facts, *operands)
        *rows, width = concrete_shape(k.shape)
        return k.with_shape((*rows, width + width_of(operands[2])))

    def evaluate(self, *operands: Array) -> Array:
        """What the gradients' references give."""
        _, to_k, to_v = self.whole.gradients()
        return np.concatenate([to_k.evaluate(*operands), to_v.evaluate(*operands)], -1)


@dataclass(frozen=True)
class FlashAttentionBackwardQ(FlashAttentionOp):
    """The gradient dq, made by one kernel."""

    operands = AttentionGradient.operands

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Those of the gradient."""
        return self.whole.gradients()[0].flops(operands, result)

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """The type of q."""
        return self.whole.gradients()[0].infer(facts, *operands)

    def evaluate(self, *operands: Array) -> Array:
        """What the gradient's reference gives."""
        return np.asarray(self.whole.gradients()[0].evaluate(*operands))
