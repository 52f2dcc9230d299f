"""Batches of examples: shuffled each epoch in training, in file order in evaluation."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_runtime.io.data.data_problems import TooFewExamples
from meganeura_runtime.io.data.dataset import Dataset


def order_of_epoch(seed: int, epoch: int, examples: int, *, shuffle: bool) -> NDArray[np.int64]:
    """The numbers of all examples in the order of an epoch, which depends on nothing else.

    Each example gets a random word and they are sorted by it. The words are those of Philox-4x64-10
    (Salmon et al. 2011) with the key (seed, epoch), whose stream NumPy keeps for ever.
    """
    if not shuffle:
        return np.arange(examples)
    key = np.array([seed, epoch], dtype=np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(examples), kind="stable")


def require_batch(
    dataset: Dataset, batch: int, place: Span | None = None, *, drop_last: bool = True
) -> None:
    """Raise `ProblemError` where an epoch would not have even one step."""
    if steps_of_epoch(dataset.train.examples, batch, drop_last=drop_last) == 0:
        raise ProblemError(TooFewExamples(place, dataset.path, dataset.train.examples, batch))


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
