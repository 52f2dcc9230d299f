"""Batches of examples: shuffled each epoch in training, in file order in evaluation."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.io.data.data_problems import TooFewExamples
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.splits import Split, StoredSplit

NO_EPOCH = 2**64 - 1
"""The key, in place of an epoch, of the shuffle that chooses examples to hold out."""


def order_of_epoch(seed: int, epoch: int, examples: int, *, shuffle: bool) -> NDArray[np.int64]:
    """The numbers of all examples in the order of an epoch, which depends on nothing else.

    Each example gets a random word and they are sorted by it. The words are those of Philox-4x64-10
    (Salmon et al. 2011) with the key (seed, epoch), whose stream NumPy keeps for ever.
    """
    if not shuffle:
        return np.arange(examples)
    key = np.array([seed, epoch], dtype=np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(examples), kind="stable")


def order_of_pass(settings: RunSettings, split: Split, number: int) -> NDArray[np.int64]:
    """All examples in the order of a pass: shuffled, drawn, or their own."""
    if isinstance(split, StoredSplit) and split.weights is not None:
        return drawn_in_epoch(settings.seed, number, split.weights)
    shuffle = settings.shuffle and not split.is_ordered
    return order_of_epoch(settings.seed, number, split.examples, shuffle=shuffle)


def drawn_in_epoch(seed: int, epoch: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns as many examples as there are, each drawn with a chance in proportion to its weight.

    They are drawn with replacement, by the random words that `order_of_epoch` sorts by.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    words = np.random.Philox(key=key).random_raw(len(weights))
    ends = np.cumsum(weights / weights.max())  # their own sum might overflow
    found = np.searchsorted(ends / ends[-1], words / 2.0**64, side="right")
    return np.minimum(found, np.flatnonzero(weights)[-1])


def held_out_of(seed: int, examples: int, share: float) -> NDArray[np.int64]:
    """The numbers of a share of all examples, in order: those that one shuffle begins with."""
    order = order_of_epoch(seed, NO_EPOCH, examples, shuffle=True)
    return np.sort(order[: round(share * examples)])


def require_batch(
    dataset: Dataset, batch: int, span: Span | None = None, *, drop_last: bool = True
) -> None:
    """Raise `ProblemError` where an epoch would not have even one step."""
    if steps_of_epoch(dataset.train.examples, batch, drop_last=drop_last) == 0:
        raise ProblemError(TooFewExamples(span, dataset.path, dataset.train.examples, batch))


def steps_of_epoch(examples: int, batch: int, *, drop_last: bool) -> int:
    """Batches in an epoch; a last one that is not full counts unless it is dropped."""
    return examples // batch if drop_last else -(-examples // batch)


def even_batch(examples: int, batch: int, devices: int = 1) -> int:
    """The largest batch, not above `batch`, that leaves no remainder; `batch` if that is too small.

    It is one that the devices share evenly. A remainder needs a graph of its own size, which takes
    longer to prepare than to run.
    """
    sizes = range(min(batch, examples), batch // 2, -1)
    return next((n for n in sizes if examples % n == 0 and n % devices == 0), batch)


def runs(examples: int, batch: int) -> Iterator[slice]:
    """All examples in their own order, the last batch as small as it is."""
    for start in range(0, examples, batch):
        yield slice(start, min(start + batch, examples))
