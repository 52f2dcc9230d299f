"""Bytes of a file that are compared with checksums, piece by piece, when they are first read.

The first bytes that are wanted of a piece have all of it read and summed, and are copied from the
memory that was summed. Later ones are read by themselves: the file is known to be the same. The
last piece of which something is left stays in memory, so that whoever goes through a tensor in its
order reads no byte twice.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, local
from typing import TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import DamagedFile
from meganeura_runtime.io.tensors.open_file import OpenFile

PIECE = 1 << 20
"""Bytes of one piece; they stay in the caches of a processor."""
WORTH_THREADS = 4 << 20
"""Bytes from which on threads save time."""
MOST_THREADS = 8

Sums = NDArray[np.uint32]
"""The CRC-32 of each piece of a tensor."""

_T = TypeVar("_T")
_R = TypeVar("_R")

_own = local()
"""Memory of each thread, for one piece."""


def piece_memory(size: int) -> memoryview:
    """Memory of this thread for so many bytes of a piece, until it asks for the next."""
    if not hasattr(_own, "memory"):
        _own.memory = memoryview(bytearray(PIECE))
    memory: memoryview = _own.memory
    return memory[:size]


def for_each_piece(work: Callable[[_T], _R], pieces: Sequence[_T], size: int) -> list[_R]:
    """What the work on each of some pieces, of so many bytes in all, gives."""
    if size < WORTH_THREADS:
        return [work(each) for each in pieces]
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, pieces))


@dataclass
class LastPiece:
    """The last piece of which something was left: of a tensor, or of all parts of a joined one."""

    held: tuple[object, int, bytes] | None = None
    """Whose it is, its number, and what it holds."""


@dataclass(frozen=True)
class _Part:
    """Memory that is filled from some byte of a piece on."""

    at: int
    memory: memoryview


@dataclass(eq=False)
class VerifiedPieces:
    """The bytes of a tensor. Any thread may read them; each piece is summed once."""

    file: OpenFile
    name: str
    offset: int
    """Where the tensor begins in the file."""
    size: int
    """Bytes of the tensor."""
    row_bytes: int
    sums: Sums
    last: LastPiece = field(default_factory=LastPiece)
    _is_verified: bytearray = field(init=False)
    _summing: Lock = field(init=False, default_factory=Lock)
    _key: object = field(init=False, default_factory=object)

    def __post_init__(self) -> None:
        self._is_verified = bytearray(len(self.sums))

    def fill(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        """Read into memory, each from some byte of the tensor on.

        Raises `ProblemError` for a piece that is not as it was written.
        """
        if 0 not in self._is_verified and self._held() is None:
            for start, memory in wanted:
                self.file.fill(memory, self.offset + start)
            return
        fresh: dict[int, list[_Part]] = {}
        for start, memory in wanted:
            for number, part in _parts(start, memory):
                if self._is_verified[number]:
                    self._read(number, part)
                else:
                    fresh.setdefault(number, []).append(part)
        if fresh:
            self._read_first(fresh)

    def _held(self) -> tuple[int, bytes] | None:
        """The number and the content of the piece that is in memory."""
        held = self.last.held
        return held[1:] if held is not None and held[0] is self._key else None

    def _read(self, number: int, part: _Part) -> None:
        """Fill memory with bytes of a piece that is verified."""
        held, end = self._held(), part.at + len(part.memory)
        if held is None or held[0] != number:
            self.file.fill(part.memory, self.offset + number * PIECE + part.at)
            return
        part.memory[:] = held[1][part.at : end]
        if end == len(held[1]):
            self.last.held = None

    def _read_first(self, fresh: Mapping[int, Sequence[_Part]]) -> None:
        """Fill memory with bytes of pieces that were not verified when they were asked for."""
        with self._summing:
            numbers = sorted(number for number in fresh if not self._is_verified[number])
            last = numbers[-1] if numbers else None

            def verify(number: int) -> None:
                self._verify(number, fresh[number], hold=number == last)

            for_each_piece(verify, numbers, len(numbers) * PIECE)
        for number in fresh.keys() - set(numbers):  # another thread was faster
            for part in fresh[number]:
                self._read(number, part)

    def _verify(self, number: int, parts: Sequence[_Part], *, hold: bool) -> None:
        """Read all of a piece, compare it with its sum, and fill memory with bytes of it."""
        size = min(PIECE, self.size - number * PIECE)
        is_whole = len(parts) == 1 and len(parts[0].memory) == size
        content = parts[0].memory if is_whole else piece_memory(size)
        self.file.fill(content, self.offset + number * PIECE)
        if crc32(content) != int(self.sums[number]):
            raise ProblemError(DamagedFile(self.file.path, self._place(number, size)))
        if not is_whole:
            for part in parts:
                part.memory[:] = content[part.at : part.at + len(part.memory)]
            if hold and max(part.at + len(part.memory) for part in parts) < size:
                self.last.held = self._key, number, bytes(content)
        self._is_verified[number] = True

    def _place(self, number: int, size: int) -> str:
        """A piece in words."""
        if len(self.sums) == 1:
            return f"`{self.name}`"
        start, stop = number * PIECE, number * PIECE + size - 1
        rows = f"rows {start // self.row_bytes:,} to {stop // self.row_bytes:,}"
        return f"`{self.name}`, of which bytes {start:,} to {stop:,} are {rows},"


def _parts(start: int, memory: memoryview) -> Iterator[tuple[int, _Part]]:
    """What each piece fills of memory that begins at some byte of a tensor."""
    done = 0
    while done < len(memory):
        number, at = divmod(start + done, PIECE)
        size = min(PIECE - at, len(memory) - done)
        yield number, _Part(at, memory[done : done + size])
        done += size
