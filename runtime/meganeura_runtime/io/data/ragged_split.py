"""Examples of different sizes, joined into batches: the rows of one behind those of another.

A file has the rows of all examples in one tensor, and for each ragged size, under its name, the
number of rows of each example: whole numbers [examples]. Numbers that pick rows count within their
example there; in a batch they are moved by the rows of the examples before. Nothing is padded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.ragged_axes import (
    EXAMPLE_OF,
    OFFSETS,
    Ragged,
    derived_name,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data.ragged_problems import RaggedData
from meganeura_runtime.io.data.splits import Examples, Feed, StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import Array, read

COUNTS = "store the rows of one example behind those of another, and how many each has"
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class RaggedSplit(StoredSplit):
    """Ragged examples; `feeds` has the rows of all, and the counts of each size."""

    ragged: Ragged
    offsets: Mapping[str, Numbers]
    """The first row of each example, and behind the last one, for each ragged size."""

    def take(self, examples: Examples) -> dict[str, Array]:
        """Returns the arrays of some examples, and which rows are of which of them."""
        chosen = self._chosen(examples)
        counts = {size: self._counts(size, chosen) for size in self.ragged.names}
        starts = {size: _offsets(each) for size, each in counts.items()}
        found: dict[str, Array] = {}
        for name, feed in self.feeds.items():
            if name in self.ragged.names:
                continue
            size, shift = self.ragged.sizes.get(name), self.ragged.shifts.get(name)
            if size is None:
                rows = feed.take(chosen)
            else:
                rows = replace(feed, rows=1).take(self._rows(size, chosen))
            if shift is not None:
                moved = starts[shift][:-1]
                moved = moved if size is None else np.repeat(moved, counts[size])
                places = moved.reshape(-1, *[1] * (rows.ndim - 1)).astype(np.int32)
                rows = rows.astype(np.int32) + places
            found[name] = rows
        for size in self.ragged.names:
            graph = np.repeat(np.arange(len(chosen)), counts[size])
            found[derived_name(EXAMPLE_OF, size)] = graph.astype(np.int32)
            found[derived_name(OFFSETS, size)] = starts[size].astype(np.int32)
        return found

    def sizes_of(self, examples: Examples) -> dict[str, int]:
        """Returns the ragged sizes of a batch; raises `ProblemError` for one without any row."""
        chosen = self._chosen(examples)
        sizes = {size: int(self._counts(size, chosen).sum()) for size in self.ragged.names}
        for size, rows in sizes.items():
            if rows == 0:
                feed = self.feeds[size]
                headline = f"the {len(chosen):,} examples of a batch have no row of `{size}`"
                cure = "a size is at least 1: take larger batches, or leave such examples out"
                file = feed.tensor.file
                raise ProblemError(RaggedData(feed.span, file, headline, (), cure))
        return sizes

    def _chosen(self, examples: Examples) -> Numbers:
        numbers = np.arange(self.stored) if self.numbers is None else self.numbers
        return numbers[examples]

    def _counts(self, size: str, chosen: Numbers) -> Numbers:
        return self.offsets[size][chosen + 1] - self.offsets[size][chosen]

    def _rows(self, size: str, chosen: Numbers) -> Numbers:
        """The numbers of the rows of some examples, one example after the other."""
        counts = self._counts(size, chosen)
        within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(
            _offsets(counts)[:-1], counts
        )
        return np.repeat(self.offsets[size][chosen], counts) + within


def ragged_split(
    feeds: Mapping[str, Feed], ragged: Ragged, examples: int, path: Path, span: Span | None
) -> RaggedSplit:
    """The examples of feeds, one of which counts the rows of each size; raises `ProblemError`."""
    offsets: dict[str, Numbers] = {}
    for size in ragged.names:
        counts = np.asarray(feeds[size].take(slice(0, examples)), np.int64)
        if (counts < 0).any():
            at = int((counts < 0).argmax())
            headline = f"example {at:,} has {counts[at]:,} rows of `{size}`"
            raise ProblemError(RaggedData(span, path, headline, (), COUNTS))
        offsets[size] = _offsets(counts)
    for name, size in ragged.sizes.items():
        stored, wanted = feeds[name].tensor.shape[0], int(offsets[size][-1])
        if stored != wanted:
            headline = f"`{name}` has {stored:,} rows, and the examples have {wanted:,} of `{size}`"
            feed = feeds[name]
            remarks = (
                (feed.tensor.name, str(feed.tensor)),
                (feeds[size].tensor.name, f"{examples:,} numbers, {wanted:,} together"),
            )
            raise ProblemError(RaggedData(span, path, headline, remarks, COUNTS))
    split = RaggedSplit(feeds, examples, ragged=ragged, offsets=offsets)
    for name, shift in ragged.shifts.items():
        _require_inside(split, name, shift, path, span)
    return split


def _require_inside(
    split: RaggedSplit, name: str, shift: str, path: Path, span: Span | None
) -> None:
    """Raise `ProblemError` at the first number that picks a row its example does not have."""
    counts = np.diff(split.offsets[shift])
    size = split.ragged.sizes.get(name)
    tensor = split.feeds[name].tensor
    values = read(tensor, DType.I32, slice(None))
    own = np.arange(split.examples)
    if size is not None:
        own = np.repeat(own, np.diff(split.offsets[size]))
    flat = values.reshape(len(values), prod(values.shape[1:])).astype(np.int64)
    wrong = ((flat < 0) | (flat >= counts[own][:, None])).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        example, limit = int(own[row]), int(counts[own[row]])
        value = next(int(each) for each in flat[row] if not 0 <= each < limit)
        first = row if size is None else row - int(split.offsets[size][example])
        headline = f"`{name}` holds {value:,}, and its example has {limit:,} rows of `{shift}`"
        remarks = (("found at", f"example {example:,}, row {first:,} of it"),)
        cure = "numbers count from 0 within their example; a batch moves them to its rows"
        raise ProblemError(RaggedData(span, path, headline, remarks, cure))


def _offsets(counts: Numbers | Sequence[int]) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
