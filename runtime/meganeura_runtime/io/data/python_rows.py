"""Data sets of Python: `len()` says how many examples they have, and `[i]` gives one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import local
from typing import Protocol, cast

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.python_items import FROM_PYTHON, as_tensor, named_arrays
from meganeura_runtime.io.data.source_problems import UnlikeExamples
from meganeura_runtime.io.tensors.file_array import Rows, RowSource
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor

LOOKED_AT = 32
"""Examples, spread evenly, by which a data set is known again when a run goes on."""


class Examples(Protocol):
    """A data set of PyTorch or of Hugging Face, or a list of examples."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> object: ...


class RowFetcher:
    """Fetches examples, all inputs of one together.

    Each thread keeps the inputs of its last examples until they are asked for, each once: a data
    set may draw its examples anew each time.
    """

    def __init__(self, data: Examples, input_spec: InputSpec) -> None:
        self._data = data
        self._demand = input_spec
        self._own = local()
        first = named_arrays(data[0], input_spec, "example 0")
        self.first: Mapping[str, StoredTensor] = {
            name: as_tensor(name, array, "example 0", input_spec) for name, array in first.items()
        }

    def __len__(self) -> int:
        return len(self._data)

    def rows(self, numbers: Sequence[int], name: str) -> Array:
        """An input of some examples; raises `ProblemError` for an example unlike the first."""
        kept, left = getattr(self._own, "kept", ((), dict[str, Array]()))
        if kept != tuple(numbers) or name not in left:
            left = self._fetched(numbers)
            self._own.kept = tuple(numbers), left
        return left.pop(name)

    def _fetched(self, numbers: Sequence[int]) -> dict[str, Array]:
        """Several at once where the data can, as Hugging Face's and PyTorch's `Subset` do."""
        several = getattr(self._data, "__getitems__", None)
        items = (
            cast("Callable[[list[int]], Sequence[object]]", several)(list(numbers))
            if callable(several)
            else (self._data[number] for number in numbers)  # each may be given in one buffer
        )
        found = {
            name: np.empty((len(numbers), *each.shape), each.content.dtype)
            for name, each in self.first.items()
        }
        for row, (number, item) in enumerate(zip(numbers, items, strict=True)):
            what = f"example {number:,}"
            for name, array in named_arrays(item, self._demand, what).items():
                tensor, first = as_tensor(name, array, what, self._demand), self.first[name]
                if str(tensor) != str(first):
                    problem = UnlikeExamples(number, name, str(tensor), str(first))
                    raise ProblemError(problem)
                found[name][row] = tensor.bits
        return found


@dataclass(frozen=True, eq=False)
class FetchedRows(RowSource):
    """One input of all examples.

    One may take long to make, so each is checked when it is fed; and a data set of a user need not
    bear several threads, so that none ask ahead.
    """

    is_read_at_once = False

    fetcher: RowFetcher
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    _digest: list[str] = field(default_factory=list[str])

    @property
    def digest(self) -> str:
        """Returns the hash of some examples, as all of them may be too many."""
        if not self._digest:
            numbers = np.unique(np.linspace(0, len(self) - 1, LOOKED_AT).astype(np.int64))
            content = np.ascontiguousarray(self[numbers]).tobytes()
            self._digest.append(blake2b(content, digest_size=16).hexdigest())
        return self._digest[0]

    def __getitem__(self, rows: Rows) -> Array:
        """Some examples; raises `ProblemError`."""
        numbers = range(*rows.indices(len(self))) if isinstance(rows, slice) else rows.tolist()
        return self.fetcher.rows(list(numbers), self.name)


def row_tensors(data: Examples, input_spec: InputSpec) -> dict[str, StoredTensor]:
    """A data set as tensors, whose rows are fetched when they are fed; raises `ProblemError`."""
    fetcher = RowFetcher(data, input_spec)
    return {
        name: StoredTensor(
            FROM_PYTHON,
            name,
            first.stored,
            FetchedRows(fetcher, name, (len(fetcher), *first.shape), first.content.dtype),
        )
        for name, first in fetcher.first.items()
    }
