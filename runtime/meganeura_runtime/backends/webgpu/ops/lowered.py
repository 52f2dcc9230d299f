"""Ops that only lowered graphs contain: steps of an op that takes more than one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Op, Value
from meganeura_dsl.ir.ops.primitive.gather_scatter import Combination, combination
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class SplitKPartial(Op):
    """Sums of products in `parts` parts, whose sum along the first axis is what `whole` gives."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.CONTRACTION})
    element_cost = ElementCost.LOAD
    whole: Op
    parts: int

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        """The type of the whole, once for each part."""
        (whole,) = self.whole.result_types(facts, a, b)
        return whole.with_shape((self.parts, *whole.shape))

    def evaluate(self, a: Array, b: Array) -> Array:
        """Computes all in the first part.

        The distribution of terms over parts is the kernel's choice.
        """
        whole = np.asarray(self.whole.evaluate(a, b))
        return np.concatenate([whole[None], np.zeros((self.parts - 1, *whole.shape), whole.dtype)])

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Returns the number of operations of the whole."""
        return self.whole.flops(operands, result.with_shape(result.shape[1:]))


@dataclass(frozen=True)
class ChannelsLast(Op):
    """The result of `whole`, a convolution or its gradient, with its second axis moved last."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.CONTRACTION})
    element_cost = ElementCost.LOAD
    whole: Op

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        """The type of the whole, its axes in another order."""
        (whole,) = self.whole.result_types(facts, a, b)
        return whole.with_shape(tuple(whole.shape[axis] for axis in channels_last(whole.rank)))

    def evaluate(self, a: Array, b: Array) -> Array:
        """The whole, then its axes in another order."""
        whole = np.asarray(self.whole.evaluate(a, b))
        return np.transpose(whole, channels_last(whole.ndim))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Returns the number of operations of the whole."""
        first, *rest, channels = result.shape
        return self.whole.flops(operands, result.with_shape((first, channels, *rest)))


@dataclass(frozen=True)
class HalfCopy(Op):
    """The elements of its operand, held in f16 for products that round them anyway."""

    operands = Operands(("x",))
    traits = frozenset({Trait.ELEMENTWISE})
    element_cost = ElementCost.FREE

    def infer(self, facts: Facts, x: TensorType) -> TensorType:  # noqa: ARG002
        """The type of the operand."""
        return x

    def evaluate(self, x: Array) -> Array:
        """Returns the elements as they are."""
        return x


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation that moves the second axis to the end."""
    return (0, *range(2, rank), 1)


def plain(value: Value) -> tuple[Op, TensorType]:
    """The op that a value is the result of, and the type of that op's whole result as it is."""
    op, of = value.op, value.type
    if isinstance(op, SplitKPartial):
        op, of = op.whole, of.with_shape(of.shape[1:])
    if isinstance(op, ChannelsLast):
        op, of = op.whole, of.with_shape((of.shape[0], of.shape[-1], *of.shape[1:-1]))
    return op, of


@dataclass(frozen=True)
class LinkedReduction(Op):
    """Rows of updates combined along lists.

    Row r of the result combines the updates at first[r], at following[first[r]] and so on, up to
    the first number that is no place among them.
    """

    operands = Operands(("first", "following", "updates"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    kind: Combination
    axis: int

    def infer(
        self, facts: Facts, first: TensorType, following: TensorType, updates: TensorType
    ) -> TensorType:
        """A row for each list."""
        before, after = updates.shape[: self.axis], updates.shape[self.axis + 1 :]
        facts.require_same_shape(
            following.shape, updates.shape[self.axis : self.axis + 1], "each update has a link"
        )
        return updates.with_shape((*before, *first.shape, *after))

    def evaluate(self, first: Array, following: Array, updates: Array) -> Array:
        """Follow the linked lists of all rows at once, one link at a time."""
        ended = np.concatenate([following, following.shape]).astype(np.int64)
        combine, nothing = combination(self.kind, updates)
        none = np.full_like(np.take(updates, [0], self.axis), nothing)
        padded = np.concatenate([updates, none], self.axis)
        at = first.astype(np.int64)
        total = np.take(padded, at, self.axis)
        while (at := ended[at]).min() < following.size:
            total = combine(total, np.take(padded, at, self.axis))
        return total
