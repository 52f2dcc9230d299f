"""Attention as a library of the device makes it, in ops that only graphs for XLA contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.ops.fused.attention_scores import width_of
from meganeura_dsl.ir.traits import ElementCost, Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class Library:
    """How `jax.nn.dot_product_attention` is called."""

    implementation: Literal["cudnn", "xla"]
    multiple: int = 1
    """Queries and keys are padded to a multiple of so many rows, which the library leaves out."""


@dataclass(frozen=True)
class LibraryAttention(Op):
    """The first result of `whole`, without a mask."""

    operands = Operands(("q", "k", "v"))
    traits = Attention.traits
    element_cost = ElementCost.LOAD

    whole: Attention
    library: Library

    def infer(self, facts: Facts, q: TensorType, k: TensorType, v: TensorType) -> TensorType:
        """The type of the weighted mean of values."""
        return self.whole.require_values(facts, q, k, v)

    def evaluate(self, q: Array, k: Array, v: Array) -> Array:
        """What the reference gives."""
        return self.whole.evaluate(q, k, v)[0]

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """As many as the whole."""
        return self.whole.flops(operands, result)


@dataclass(frozen=True)
class LibraryAttentionGradient(Op):
    """The gradients dq, dk and dv of the `LibraryAttention` that gave `mean`."""

    operands = Operands(("q", "k", "v", "mean", "dy"))
    traits = Attention.traits
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True

    whole: Attention
    library: Library

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, *_: TensorType
    ) -> tuple[TensorType, ...]:
        """The types of q, k and v."""
        self.whole.require_values(facts, q, k, v)
        return q, k, v

    def evaluate(self, q: Array, k: Array, v: Array, mean: Array, dy: Array) -> tuple[Array, ...]:
        """What the gradient's reference gives."""
        _, rows = self.whole.evaluate(q, k, v)
        level = (dy * mean).sum(-1)
        return self.whole.gradient.evaluate(q, k, v, dy, rows, level)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:  # noqa: ARG002
        """Five products: the scores, the slopes of the weights, dq, dk and dv."""
        q, k, v, *_ = operands
        return self.whole.products(q, k, 3 * width_of(q) + 2 * width_of(v))
