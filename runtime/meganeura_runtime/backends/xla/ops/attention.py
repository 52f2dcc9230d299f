"""Attention by a library of the device, in ops that only graphs for XLA contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.ops.fused.attention_scores import width_of
from meganeura_dsl.ir.traits import ElementCost, Operands
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


class Library(NamedTuple):
    """The library that `jax.nn.dot_product_attention` calls, and its requirements."""

    implementation: Literal["cudnn", "xla"]
    multiple: int = 1
    """Queries and keys are padded to a multiple of this number of rows, which the library masks."""


@dataclass(frozen=True)
class LibraryAttention(Op):
    """The weighted mean of values of `whole`, which has no mask."""

    operands = Operands(("q", "k", "v"))
    traits = Attention.traits
    element_cost = ElementCost.LOAD

    whole: Attention
    library: Library

    def infer(self, facts: Facts, q: TensorType, k: TensorType, v: TensorType) -> TensorType:
        """Returns the type of the weighted mean of values."""
        return self.whole.require_values(facts, q, k, v)

    def evaluate(self, q: Array, k: Array, v: Array) -> Array:
        """Returns the result of the reference."""
        return self.whole.evaluate(q, k, v)[0]

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Returns the count of the attention without its logarithms."""
        return self.whole.flops(operands, result)


@dataclass(frozen=True)
class LibraryAttentionGradient(Op):
    """The gradients dq, dk and dv of the `LibraryAttention` that returned `mean`."""

    operands = Operands(("q", "k", "v", "mean", "dy"))
    traits = Attention.traits
    element_cost = ElementCost.LOAD
    multiple_results: ClassVar[bool] = True

    whole: Attention
    library: Library

    def infer(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, *_: TensorType
    ) -> tuple[TensorType, ...]:
        """Returns the types of q, k and v."""
        self.whole.require_values(facts, q, k, v)
        return q, k, v

    def evaluate(self, q: Array, k: Array, v: Array, mean: Array, dy: Array) -> tuple[Array, ...]:
        """Returns the results of the gradient's reference."""
        _, rows = self.whole.evaluate(q, k, v)
        level = (dy * mean).sum(-1)
        return self.whole.gradient.evaluate(q, k, v, dy, rows, level)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:  # noqa: ARG002
        """Returns the count of five products: scores, slopes of weights, dq, dk and dv."""
        q, k, v, *_ = operands
        return self.whole.products(q, k, 3 * width_of(q) + 2 * width_of(v))
