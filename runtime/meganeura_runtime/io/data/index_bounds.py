"""Checks the indices among the inputs of a data set before anything runs, or as they are fed."""

from collections.abc import Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.index_checks import Bound
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.data.splits import Feed, Split, StoredSplit
from meganeura_runtime.io.data.streams import StreamSplit
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, chunks


def bounded(dataset: Dataset, bounds: Mapping[str, Bound], location: Span | None) -> Dataset:
    """The data, whose indices all pick something: those that are not checked here are when fed.

    Raises `ProblemError` at the first index, held out or not, that is out of range.
    """
    train = _bounded(dataset.train, bounds, location)
    test = None if dataset.test is None else _bounded(dataset.test, bounds, location)
    return replace(dataset, train=train, test=test)


def _bounded(split: Split, bounds: Mapping[str, Bound], location: Span | None) -> Split:
    match split:
        case StoredSplit(feeds=feeds):
            checked = {
                name: _checked(feed, bounds.get(name), location) for name, feed in feeds.items()
            }
            return replace(split, feeds=checked)
        case StreamSplit():
            return split.bounded(bounds)
        case _:
            return split


def _checked(feed: Feed, bound: Bound | None, location: Span | None) -> Feed:
    """A feed whose indices are below a bound, or will be."""
    if bound is None or not feed.is_verified:
        return replace(feed, bound=bound)
    check_ids(feed.tensor, bound, location)
    return feed


def check_ids(tensor: StoredTensor, bound: Bound, location: Span | None = None) -> None:
    """Raise `ProblemError` at the first index out of range."""
    for start, values in chunks(tensor.content):
        rows = values if tensor.shape else values.reshape(())
        check_values(rows, bound, tensor.name, str(tensor.file), location, start)
