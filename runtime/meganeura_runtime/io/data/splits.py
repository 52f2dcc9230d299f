"""Examples of a split, and how each input of a program is fed from its tensor."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.tensors.file_array import Rows
from meganeura_runtime.io.tensors.joined_array import Joined
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor, read, read_verified

Examples = slice | NDArray[np.int64]
"""Examples: a range of them, or their numbers."""


@dataclass(frozen=True, eq=False)
class Feed:
    """One input and the tensor that feeds it."""

    tensor: StoredTensor
    dtype: DType
    rows: int
    """Rows of the tensor that make one example; 0 where the tensor is fed whole."""
    is_verified: bool = True
    """True if all values were checked before the run; others are when they are fed."""
    bound: Bound | None = None
    """The bound of indices that are checked when they are fed."""
    span: Span | None = None
    """The setting that names the data."""

    @property
    def examples(self) -> int:
        """The number of examples in the tensor."""
        return self.tensor.shape[0] // self.rows

    def take(self, examples: Examples) -> Array:
        """The rows of some examples; raises `ProblemError` for values that do not fit."""
        rows = self._rows_of(examples)
        if self.is_verified:
            return read(self.tensor, self.dtype, rows)
        values = read_verified(self.tensor, self.dtype, rows)
        if self.bound is not None:
            name, file = self.tensor.name, str(self.tensor.file)
            numbers = np.arange(self.tensor.shape[0] if self.tensor.shape else 0)[rows]
            check_values(values, self.bound, name, file, self.span, numbers)
        return values

    def _rows_of(self, examples: Examples) -> Rows:
        if self.rows == 0:
            return slice(None)
        if self.rows == 1:
            return examples
        if isinstance(examples, slice):
            return slice(examples.start * self.rows, examples.stop * self.rows)
        return (examples[:, None] * self.rows + np.arange(self.rows)).reshape(-1)


class Split(ABC):
    """Examples for all inputs of a program: those to train on, or those held out."""

    examples: int
    """The number of examples."""
    is_ordered = False
    """True if they can be had in their own order only, in batches of their own size."""

    @property
    @abstractmethod
    def is_slow(self) -> bool:
        """True if an example takes computation, so that batches are prepared ahead of time."""

    @abstractmethod
    def take(self, examples: Examples) -> dict[str, Array]:
        """Returns the arrays of some examples. Raises `ProblemError` if values do not fit."""

    def take_again(self, examples: Examples) -> dict[str, Array]:
        """Returns the arrays taken last if the examples are the same, else those of `take`."""
        return self.take(examples)

    def take_own(
        self, examples: Examples, own: range, *, is_again: bool = False
    ) -> dict[str, Array]:
        """Returns the arrays of one of several processes, to which `own` of the examples belong.

        `is_again` says that the same were taken last, as `take_again` is asked for.
        """
        del is_again  # they can be taken at any time
        if not isinstance(examples, slice):
            return self.take(examples[own.start : own.stop])
        return self.take(slice(examples.start + own.start, examples.start + own.stop))


@dataclass(frozen=True, eq=False)
class StoredSplit(Split):
    """Examples that are rows of tensors, all of whose shapes and types are checked."""

    feeds: Mapping[str, Feed]
    examples: int
    numbers: NDArray[np.int64] | None = None
    """The numbers of these examples in the tensors; `None` for all of them."""
    weights: NDArray[np.float64] | None = None
    """The relative frequency at which each is drawn; `None` for once an epoch."""

    @property
    def stored(self) -> int:
        """The number of examples in the tensors, of which these may be some."""
        counts = (feed.examples for feed in self.feeds.values() if feed.rows)
        return next(counts, self.examples)

    @property
    def empty_files(self) -> frozenset[Path]:
        """The files, of several, without an example, as a text shorter than a sequence."""
        contents = [feed.tensor.content for feed in self.feeds.values() if feed.rows]
        return frozenset(
            file
            for each in contents
            if isinstance(each, Joined)
            for file, rows in zip(each.files, each.lengths, strict=True)
            if rows == 0
        )

    @property
    def is_slow(self) -> bool:
        """True if an example takes computation, so that batches are prepared ahead of time."""
        contents = [feed.tensor.content for feed in self.feeds.values()]
        return any(not isinstance(each, np.ndarray) and each.is_slow for each in contents)

    def take(self, examples: Examples) -> dict[str, Array]:
        """Returns the arrays of some examples."""
        chosen = examples if self.numbers is None else self.numbers[examples]
        return {name: feed.take(chosen) for name, feed in self.feeds.items()}

    def only(self, numbers: NDArray[np.int64]) -> "StoredSplit":
        """Some of these examples, in that order; how often each is drawn is said of them then."""
        chosen = numbers if self.numbers is None else self.numbers[numbers]
        return replace(self, examples=len(numbers), numbers=chosen)
