"""Attention as kernels make it, in ops that only lowered graphs contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient
from meganeura_dsl.ir.ops.fused.attention_scores import width_of
from meganeura_dsl.ir.traits import ElementCost
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class FlashAttentionOp(Op, abstract=True):
    """An attention, or a gradient of one, that a kernel makes."""

    operands = Attention.operands
    traits = Attention.traits
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True

    whole: Attention


@dataclass(frozen=True)
class FlashAttention(FlashAttentionOp):
    """The results of `whole`, over each of `parts` parts of the keys if there are several."""

    parts: int = 1

    def infer(self, facts: Facts, *operands: TensorType) -> tuple[TensorType, ...]:
        """The types of the whole, once for each part."""
        parts = (self.parts,) if self.parts > 1 else ()
        results = self.whole.result_types(facts, *operands)
        return tuple(each.with_shape((*parts, *each.shape)) for each in results)

    def evaluate(self, *operands: Array) -> tuple[Array, Array]:
        """Computes all in the first part.

        The distribution of keys over parts is the kernel's choice.
        """
        mean, rows = self.whole.evaluate(*operands)
        if self.parts == 1:
            return mean, rows
        none = [(0, self.parts - 1), *((0, 0) for _ in rows.shape)]
        return (
            np.pad(mean[None], [*none, (0, 0)]),
            np.pad(rows[None], none, constant_values=-inf),
        )

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Returns the number of operations of the whole."""
        return self.whole.flops(operands, result)


@dataclass(frozen=True)
class FlashAttentionBackwardKV(FlashAttentionOp):
    """The gradients dk and dv, made by one kernel."""

    operands = AttentionGradient.operands

    def infer(self, facts: Facts, *operands: TensorType) -> tuple[TensorType, ...]:
        """The types of k and v."""
        return self.whole.gradient.result_types(facts, *operands)[1:3]

    def evaluate(self, *operands: Array) -> tuple[Array, ...]:
        """Returns the results of the gradient's reference."""
        return self.whole.gradient.evaluate(*operands)[1:3]

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:  # noqa: ARG002
        """Four products: the scores, the slopes of the weights, dk and dv."""
        q, k, v, *_ = operands
        return self.whole.products(q, k, 2 * width_of(q) + 2 * width_of(v))


@dataclass(frozen=True)
class FlashAttentionBackwardQ(FlashAttentionOp):
    """The gradient dq, made by one kernel."""

    operands = AttentionGradient.operands
    multiple_results: ClassVar[bool] = False

    def infer(self, facts: Facts, *operands: TensorType) -> TensorType:
        """The type of q."""
        return self.whole.gradient.result_types(facts, *operands)[0]

    def evaluate(self, *operands: Array) -> Array:
        """Returns the results of the gradient's reference."""
        return self.whole.gradient.evaluate(*operands)[0]

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:  # noqa: ARG002
        """Three products: the scores, the slopes of the weights and dq."""
        q, k, v, *_ = operands
        return self.whole.products(q, k, 2 * width_of(q) + width_of(v))
