"""Batches of an iterable: in their own order, each checked against the inputs as it comes."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import cast

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.index_checks import Bound
from meganeura_runtime.io.data.dataset import InputSpec, match_batch
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.data.python_items import FROM_PYTHON, as_tensor, named_arrays
from meganeura_runtime.io.data.source_problems import (
    NotForStreams,
    StreamEnded,
    Uncounted,
    WrongBatch,
)
from meganeura_runtime.io.data.splits import Examples, Split, StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import Array


class StreamSplit(Split):
    """Examples of an iterable of batches, which are taken one batch after the other.

    A pass begins with example 0: an iterable begins anew then, an iterator goes on. Where a run
    goes on in the middle of a pass, the batches of an iterable that were used are consumed once
    more; an iterator has to begin with the one that comes next.
    """

    is_ordered = True

    def __init__(
        self, data: Iterable[object], input_spec: InputSpec, examples: int, *, drop_last: bool
    ) -> None:
        """`examples` are those of a pass."""
        self.examples = examples
        self._data = data
        self._demand = input_spec
        self._drop_last = drop_last
        self._bounds: Mapping[str, Bound] = {}
        self._batches: Iterator[object] | None = None
        """The batches of this pass; `None` before the first is asked for."""
        self._count = 0
        """Batches of this pass that were read."""
        self._next = 0
        """The example to come."""
        self._last: tuple[tuple[int, int], dict[str, Array]] | None = None

    @property
    def is_slow(self) -> bool:
        """An iterator gives one batch after the other, whoever asks."""
        return False

    def bounded(self, bounds: Mapping[str, Bound]) -> "StreamSplit":
        """The same, its indices below these bounds."""
        self._bounds = bounds
        return self

    def take(self, examples: Examples) -> dict[str, Array]:
        """The next batch, which must be the one asked for; the first one begins a pass.

        Raises `ProblemError` for a batch that does not fit, and where there is none.
        """
        first, end = _run(examples)
        if first == 0:
            self._begin()
        elif self._batches is None:
            self._catch_up(first)
        if first != self._next:
            raise ProblemError(NotForStreams("resume"))
        batch = self._fed(self._checked(end - first))
        self._last = (first, end), batch
        self._next = end
        return batch

    def take_again(self, examples: Examples) -> dict[str, Array]:
        """The batch taken last, if it is the one asked for; the next one otherwise."""
        if self._last is not None and self._last[0] == _run(examples):
            return self._last[1]
        return self.take(examples)

    def take_own(
        self, examples: Examples, own: range, *, is_again: bool = False
    ) -> dict[str, Array]:
        """The part of the next batch that is of this process; all of them read the whole batch."""
        rows = self._demand.rows
        taken = self.take_again(examples) if is_again else self.take(examples)
        return {
            name: each[own.start * rows[name] : own.stop * rows[name]] if name in rows else each
            for name, each in taken.items()
        }

    def _begin(self) -> None:
        """Begin a pass."""
        self._next = self._count = 0
        self._batches = iter(self._data)

    def _catch_up(self, first: int) -> None:
        """Begin a pass in which so many examples were used already."""
        self._begin()
        if self._batches is not self._data:
            while self._next < first:
                self._next += self._checked(min(self._demand.batch, first - self._next)).examples
        self._next = first

    def _checked(self, wanted: int) -> StoredSplit:
        """The next batch of that many examples; a smaller one may end a pass."""
        input_spec = self._demand
        for item in self._batches or ():
            self._count += 1
            split = checked_batch(item, input_spec, f"batch {self._count:,}")
            is_rest = self._drop_last and split.examples < input_spec.batch
            if split.examples == wanted:
                return split
            if not is_rest:
                problem = WrongBatch(self._count, split.examples, wanted, input_spec.counter)
                raise ProblemError(problem)
        raise ProblemError(StreamEnded(self._count, -(-self.examples // input_spec.batch)))

    def _fed(self, split: StoredSplit) -> dict[str, Array]:
        batch = split.take(slice(0, split.examples))
        for name, bound in self._bounds.items():
            if name in batch:
                check_values(batch[name], bound, name)
        return batch


def checked_batch(item: object, input_spec: InputSpec, what: str = "the batch") -> StoredSplit:
    """A dictionary or a tuple of arrays as a batch that fits the inputs; raises `ProblemError`."""
    tensors = {
        name: as_tensor(name, array, what, input_spec)
        for name, array in named_arrays(item, input_spec, what).items()
    }
    return match_batch(tensors, input_spec, FROM_PYTHON)


def stream(
    data: Iterable[object],
    input_spec: InputSpec,
    *,
    steps: int | None = None,
    drop_last: bool = True,
    held_out: bool = False,
) -> StreamSplit:
    """An iterable of batches, of which `steps` are a pass if it does not say how many it has.

    Raises `ProblemError` if nobody says.
    """
    counted = _count(data, input_spec)
    if counted is None and (steps is None or held_out):
        raise ProblemError(Uncounted(held_out))
    examples = input_spec.batch * (steps or 0) if counted is None else counted
    return StreamSplit(data, input_spec, examples, drop_last=drop_last)


def _count(data: Iterable[object], input_spec: InputSpec) -> int | None:
    """Returns the number of examples of a pass, as far as the data says.

    A list is looked at. A loader of PyTorch has a sampler whose length counts examples; anything
    else with a length counts full batches by it.
    """
    if isinstance(data, list | tuple):
        items = cast("list[object]", data)
        return sum(checked_batch(item, input_spec).examples for item in items)
    try:
        batches = len(cast("Sized", data))
        sampler = cast("object", getattr(data, "sampler", None))
        is_loader = isinstance(getattr(data, "batch_size", None), int) and sampler is not None
        if is_loader and not getattr(data, "drop_last", True):
            return len(cast("Sized", sampler))
    except TypeError:
        return None
    return batches * input_spec.batch


def _run(examples: Examples) -> tuple[int, int]:
    """The first example and the one after the last."""
    if isinstance(examples, slice):
        return examples.start, examples.stop
    numbers = np.asarray(examples)
    return int(numbers[0]), int(numbers[-1]) + 1
