"""Arrays that stay in their files: rows are read on demand.

Nothing is mapped: an access to a mapped file that was truncated ends the process with SIGBUS,
while a short read is an error message.
"""

import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from threading import Lock
from typing import Protocol
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import descriptor_of
from meganeura_runtime.io.files.file_problems import UnreadableFile

Array = NDArray[np.generic]
Rows = slice | NDArray[np.int64]

HELD = 256 << 20
"""Bytes of the largest array that is cached in memory once scattered rows of it are read."""


class RowSource(Protocol):
    """An array whose rows are read, decoded or fetched when they are asked for, by any thread."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; the first counts rows."""
        ...

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        ...

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of an element."""
        ...

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        ...

    @property
    def digest(self) -> str | None:
        """A text that changes with what it is made of; `None` if only all elements tell."""
        ...

    @property
    def is_read_at_once(self) -> bool:
        """Whether all of it can be looked at before a run, rather than each row when it is used."""
        ...

    @property
    def is_checked(self) -> bool:
        """Whether all values are known to be finite."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether rows take computation, so that several threads should ask for them ahead."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows) -> Array:
        """Some rows, as memory of their own."""
        ...

    def all(self) -> Array:
        """All rows, as memory of their own."""
        ...


def bytes_of(array: Array) -> memoryview:
    """The bytes of an array in row-major order, which are those of the array itself."""
    return array.reshape(-1).view(np.uint8).data


class OpenFile:
    """A regular file, open until it is no longer used, which must not change meanwhile.

    Raises `OSError` where it cannot be opened. Any thread may read from it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = descriptor_of(path)
        finalize(self, os.close, self._descriptor)
        self._opened = os.fstat(self._descriptor)
        self._seeking = Lock()

    @property
    def size(self) -> int:
        """Bytes, when it was opened."""
        return self._opened.st_size

    def fill(self, memory: memoryview, offset: int) -> None:
        """Read as many bytes as there is memory; raises `ProblemError` where they are not there."""
        try:
            while memory:
                count = self._read(memory, offset)
                if not count:
                    raise self._changed()
                memory, offset = memory[count:], offset + count
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None

    def _read(self, memory: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [memory], offset)
        with self._seeking:  # Windows has no such call
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            content = os.read(self._descriptor, len(memory))
        memory[: len(content)] = content
        return len(content)

    def read(self, offset: int, size: int) -> bytes:
        """Some bytes; raises `ProblemError` where they are not there."""
        content = bytearray(size)
        self.fill(memoryview(content), offset)
        return bytes(content)

    def require_unchanged(self) -> None:
        """Raise `ProblemError` if the file was written to since it was opened."""
        now = os.fstat(self._descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._opened.st_size, self._opened.st_mtime_ns):
            raise self._changed()

    def _changed(self) -> ProblemError:
        now = os.fstat(self._descriptor).st_size
        if now == self.size:
            return self._unreadable("it was written to while it was in use")
        return self._unreadable(
            f"it had {self.size:,} bytes when it was opened, and has {now:,} now"
        )

    def _unreadable(self, reason: str) -> ProblemError:
        return ProblemError(UnreadableFile(self.path, reason))


@dataclass(frozen=True, eq=False)
class InFile:
    """An array in row-major order, from some byte of a file on."""

    file: OpenFile
    offset: int
    stored: np.dtype[np.generic]
    """The encoding of an element in the file."""
    dtype: np.dtype[np.generic]
    """What it is read as: the same bits, the least significant byte first."""
    shape: tuple[int, ...]
    is_held: bool = True
    """Whether it is cached once scattered rows of it are read, if it is small enough."""
    _held: list[Array] = field(default_factory=list[Array])

    @property
    def digest(self) -> None:
        """Only its elements tell."""
        return

    @property
    def is_read_at_once(self) -> bool:
        """A file is read quickly from its beginning to its end."""
        return True

    @property
    def is_checked(self) -> bool:
        """A file may hold anything."""
        return False

    @property
    def is_slow(self) -> bool:
        """Rows are as they lie in the file."""
        return False

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

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
        """Rows that lie anywhere, one read for each."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"there are {len(self)} rows")
        size, first, fill = self._row_bytes, self.offset, self.file.fill
        found = np.empty((len(rows), *self.shape[1:]), self.stored)
        memory = bytes_of(found)
        for place, row in enumerate(rows.tolist()):
            fill(memory[place * size : (place + 1) * size], first + row * size)
        return self._finished(found)

    def _read(self, start: int, shape: tuple[int, ...]) -> Array:
        """An array that lies in one piece, `start` bytes behind the first element."""
        found = np.empty(shape, self.stored)
        self.file.fill(bytes_of(found), self.offset + start)
        return self._finished(found)

    def _finished(self, found: Array) -> Array:
        self.file.require_unchanged()
        little = self.stored.newbyteorder("<")
        return found.astype(little, copy=False).view(self.dtype)
