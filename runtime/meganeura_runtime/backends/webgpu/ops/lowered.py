"""Ops that only lowered graphs contain: steps of an op that takes more than one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Op, Value
from meganeura_dsl.ir.ops.primitive.pool import Pooling
from meganeura_dsl.ir.ops.type_rules import concrete_shape, require_same_type
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Facts


@dataclass(frozen=True)
class WindowArgMax(Pooling):
    """In each window of x, the row-major number of the place of its first largest."""

    operands = Operands(("x",))

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        """One i32 for each window."""
        return self._pooled(facts, x).with_dtype(DType.I32)

    def evaluate(self, x: Array) -> Array:
        """Compare all taps; the first wins a tie."""
        windows = self._windows()
        padded = windows.pad(x, -np.inf)
        taps = [padded[(..., *place)] for _, place in windows.taps(x.shape[2:])]
        return np.argmax(np.stack(taps), axis=0)


@dataclass(frozen=True)
class WindowPick(Pooling):
    """From g, what stands at the chosen place of each window."""

    operands = Operands(("g", "chosen"))
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.SIMPLE  # not a load: its neighbours read the same few elements

    def infer(self, facts: Facts, g: TensorType, chosen: TensorType) -> TensorType:
        """One element for each window."""
        pooled = self._pooled(facts, g)
        require_same_type(self, facts, chosen, pooled.with_dtype(DType.I32))
        return pooled

    def evaluate(self, g: Array, chosen: Array) -> Array:
        """Take from each tap the windows that chose it."""
        windows = self._windows()
        padded = windows.pad(g, 0)
        taps = [padded[(..., *place)] for _, place in windows.taps(g.shape[2:])]
        return np.choose(chosen, taps)


@dataclass(frozen=True)
class WindowSpread(Pooling):
    """Each window's element, added to the place it has chosen."""

    operands = Operands(("chosen", "dy"))
    spatial: Shape

    def infer(self, facts: Facts, chosen: TensorType, dy: TensorType) -> TensorType:
        """One element for each place that windows choose from."""
        spread = dy.with_shape((*dy.shape[:2], *self.spatial))
        require_same_type(self, facts, dy, self._pooled(facts, spread))
        require_same_type(self, facts, chosen, dy.with_dtype(DType.I32))
        return spread

    def evaluate(self, chosen: Array, dy: Array) -> Array:
        """Add to each tap the windows that chose it."""
        windows = self._windows()
        shape = (*dy.shape[:2], *concrete_shape(self.spatial))
        total = windows.pad(np.zeros(shape, dy.dtype), 0)
        for number, (_, place) in enumerate(windows.taps(shape[2:])):
            total[(..., *place)] += np.where(chosen == number, dy, 0)
        return windows.unpad(total)


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
        whole = self.whole.infer(facts, a, b)
        return whole.with_shape((self.parts, *whole.shape))

    def evaluate(self, a: Array, b: Array) -> Array:
        """Which terms a part sums is the kernel's business; here the first sums all."""
        whole = np.asarray(self.whole.evaluate(a, b))
        return np.concatenate([whole[None], np.zeros((self.parts - 1, *whole.shape), whole.dtype)])

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Those of the whole."""
        return self.whole.flops(operands, result.with_shape(result.shape[1:]))


@dataclass(frozen=True)
class ChannelsLast(Op):
    """What `whole`, a convolution or a gradient of one, gives, with its second axis moved last."""

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.CONTRACTION})
    element_cost = ElementCost.LOAD
    whole: Op

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        """The type of the whole, its axes in another order."""
        whole = self.whole.infer(facts, a, b)
        return whole.with_shape(tuple(whole.shape[axis] for axis in channels_last(whole.rank)))

    def evaluate(self, a: Array, b: Array) -> Array:
        """The whole, then its axes in another order."""
        whole = np.asarray(self.whole.evaluate(a, b))
        return np.transpose(whole, channels_last(whole.ndim))

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Those of the whole."""
        first, *rest, channels = result.shape
        return self.whole.flops(operands, result.with_shape((first, channels, *rest)))


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
class LinkedSum(Op):
    """Rows of updates added up along lists.

    Row r of the result sums the updates at first[r], at following[first[r]] and so on, up to the
    first number that is no place among them.
    """

    operands = Operands(("first", "following", "updates"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
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
        """Follow all lists at once, one link at a time."""
        ended = np.concatenate([following, following.shape]).astype(np.int64)
        none = np.zeros_like(np.take(updates, [0], self.axis))
        padded = np.concatenate([updates, none], self.axis)
        at = first.astype(np.int64)
        total = np.take(padded, at, self.axis)
        while (at := ended[at]).min() < following.size:
            total = total + np.take(padded, at, self.axis)
        return total
