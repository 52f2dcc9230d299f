"""Checks the indices among the inputs of a data set before anything runs."""

from collections.abc import Mapping

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.index_checks import Bound
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, chunks


def check_dataset(dataset: Dataset, bounds: Mapping[str, Bound], place: Span | None) -> None:
    """Raise `ProblemError` at the first index, held out or not, that picks nothing."""
    for split in (dataset.train, dataset.test):
        for name, feed in () if split is None else split.feeds.items():
            if name in bounds:
                check_ids(feed.tensor, bounds[name], place)


def check_ids(tensor: StoredTensor, bound: Bound, place: Span | None = None) -> None:
    """Raise `ProblemError` at the first value that picks nothing."""
    for start, values in chunks(tensor.content):
        rows = values if tensor.shape else values.reshape(())
        check_values(rows, bound, tensor.name, str(tensor.file), place, start)
