"""Arrays that stay in their files: rows are read on demand."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.verified_pieces import Sums, VerifiedPieces

Array = NDArray[np.generic]
Rows = slice | NDArray[np.int64]

HELD = 256 << 20
"""Bytes of the largest array that is cached in memory once scattered rows of it are read."""


class RowSource(ABC):
    """An array whose rows are read, decoded or fetched when they are asked for, by any thread."""

    shape: tuple[int, ...]
    """The sizes; the first counts rows."""
    dtype: np.dtype[np.generic]
    """The type of an element."""
    is_read_at_once: ClassVar[bool] = True
    """True if all of it can be checked before a run, rather than each row when it is used."""
    is_checked: ClassVar[bool] = False
    """True if all values are known to be finite."""
    is_slow: ClassVar[bool] = False
    """True if rows take computation, so that several threads should ask for them ahead."""

    @property
    def digest(self) -> str | None:
        """A text that changes with what it is made of; `None` if only all elements tell."""
        return None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Array:
        """Some rows, as memory of their own; raises `ProblemError` if they cannot be had."""

    def all(self) -> Array:
        """All rows, as memory of their own; raises `ProblemError` as well."""
        return self[slice(None)]


def bytes_of(array: Array) -> memoryview:
    """The bytes of an array in row-major order, which are those of the array itself."""
    return array.reshape(-1).view(np.uint8).data


@dataclass(frozen=True, eq=False)
class InFile(RowSource):
    """An array in row-major order, from some byte of a file on."""

    file: OpenFile
    offset: int
    stored: np.dtype[np.generic]
    """The encoding of an element in the file."""
    dtype: np.dtype[np.generic]
    """The type that it is read as: the same bits, the least significant byte first."""
    shape: tuple[int, ...]
    is_held: bool = True
    """True if it is cached once scattered rows of it are read, if it is small enough."""
    pieces: VerifiedPieces | None = None
    """Checksums with which what is read is compared."""
    _held: list[Array] = field(default_factory=list[Array])

    def verified(self, name: str, piece: int, sums: Sums) -> "InFile":
        """The same, which compares each piece, of so many bytes, when it is first read."""
        size, row = self.itemsize * prod(self.shape), self._row_bytes
        pieces = VerifiedPieces(self.file, name, self.offset, size, row, piece, sums)
        return replace(self, pieces=pieces)

    def all(self) -> Array:
        """The whole array, as memory of its own; raises `ProblemError` if the file has changed."""
        return self._read(0, self.shape)

    def __getitem__(self, rows: Rows) -> Array:
        """Some rows, as memory of their own; raises `ProblemError` if the file has changed."""
        if self._held:
            return np.array(self._held[0][rows])
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._read(start * self._row_bytes, (max(0, stop - start), *self.shape[1:]))
            rows = np.arange(start, stop, step)
        if self.is_held and self._row_bytes * len(self) <= HELD:
            self._held.append(self.all())
            return np.array(self._held[0][rows])
        return self._scattered(rows)

    @property
    def _row_bytes(self) -> int:
        return self.itemsize * prod(self.shape[1:])

    def _scattered(self, rows: NDArray[np.int64]) -> Array:
        """Rows that lie anywhere, one read for each run of them."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"there are {len(self)} rows")
        found = np.empty((len(rows), *self.shape[1:]), self.stored)
        size, memory = self._row_bytes, bytes_of(found)
        cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        self._fill([
            (int(rows[start]) * size, memory[start * size : stop * size])
            for start, stop in pairwise(cuts)
            if start < stop
        ])  # fmt: skip
        return self._finished(found)

    def _read(self, start: int, shape: tuple[int, ...]) -> Array:
        """An array that lies in one piece, `start` bytes behind the first element."""
        found = np.empty(shape, self.stored)
        self._fill([(start, bytes_of(found))])
        return self._finished(found)

    def _fill(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        """Read into memory, from so many bytes behind the first element on."""
        if self.pieces is not None:
            self.pieces.fill(wanted)
            return
        for start, memory in wanted:
            self.file.fill(memory, self.offset + start)

    def _finished(self, found: Array) -> Array:
        self.file.require_unchanged()
        little = self.stored.newbyteorder("<")
        return found.astype(little, copy=False).view(self.dtype)
