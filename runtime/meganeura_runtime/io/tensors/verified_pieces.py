"""Bytes of a file that are compared with checksums, piece by piece, when they are first read.

The first bytes that are wanted of a piece have all of it read and summed, and are copied from the
memory that was summed. Later ones are read by themselves: the file is known to be the same. The
last piece of which something is left stays in memory, so that whoever goes through a tensor in its
order reads no byte twice.
"""

import os
from collections.abc import Callable, Iterator, Sequence
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

RUN = 1 << 20
"""Bytes that are read and summed at a time, at most; they stay in the caches of a processor."""
WORTH_THREADS = 4 << 20
"""Bytes from which on threads save time."""
MOST_THREADS = 8

Sums = NDArray[np.uint32]
"""The CRC-32 of each piece of a tensor."""

_T = TypeVar("_T")
_R = TypeVar("_R")

_own = local()
"""Memory of each thread, for one run."""


def run_memory(size: int) -> memoryview:
    """Memory of this thread for so many bytes of a run, until it asks for the next."""
    if not hasattr(_own, "memory"):
        _own.memory = memoryview(bytearray(RUN))
    memory: memoryview = _own.memory
    return memory[:size]


def for_each_run(work: Callable[[_T], _R], runs: Sequence[_T], size: int) -> list[_R]:
    """Returns the results of the work on each run; `size` is the total in bytes."""
    if size < WORTH_THREADS:
        return [work(each) for each in runs]
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, runs))


@dataclass
class LastPiece:
    """The last piece of which something was left: of a tensor, or of all parts of a joined one."""

    held: tuple[object, int, bytes] | None = None
    """Whose it is, its number, and what it holds."""


@dataclass(frozen=True)
class _Run:
    """Memory that some whole pieces fill, or a part of a single one."""

    first: int
    stop: int
    at: int
    """Its start in the first piece; 0 for whole pieces."""
    memory: memoryview
    is_whole: bool


@dataclass(eq=False)
class VerifiedPieces:
    """The bytes of a tensor. Any thread may read them; each piece is summed once."""

    file: OpenFile
    name: str
    offset: int
    """The start of the tensor in the file."""
    size: int
    """Bytes of the tensor."""
    row_bytes: int
    piece: int
    """Bytes of a piece; the last one may have fewer."""
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
        runs = [run for start, memory in wanted for run in self._runs(start, memory)]
        fresh = [run for run in runs if not self._is_known(run)]
        for run in runs:
            if self._is_known(run):
                self._read(run)
        if fresh:
            with self._summing:
                self._read_first(fresh)

    def _runs(self, start: int, memory: memoryview) -> Iterator[_Run]:
        """Yields the pieces that fill memory, which begins at byte `start` of the tensor."""
        end, done = start + len(memory), 0
        while done < len(memory):
            number, at = divmod(start + done, self.piece)
            whole = -(-end // self.piece) if end == self.size else end // self.piece
            is_whole = at == 0 and whole > number
            if is_whole:
                stop = min(whole, number + RUN // self.piece)
                size = min(stop * self.piece, self.size) - number * self.piece
            else:
                stop = number + 1
                size = min(self.piece - at, len(memory) - done)
            yield _Run(number, stop, at, memory[done : done + size], is_whole)
            done += size

    def _is_known(self, run: _Run) -> bool:
        return 0 not in self._is_verified[run.first : run.stop]

    def _held(self) -> tuple[int, bytes] | None:
        """The number and the content of the piece that is in memory."""
        held = self.last.held
        return held[1:] if held is not None and held[0] is self._key else None

    def _read(self, run: _Run) -> None:
        """Fill memory with bytes of pieces that are verified."""
        held, end = self._held(), run.at + len(run.memory)
        if run.is_whole or held is None or held[0] != run.first:
            self.file.fill(run.memory, self.offset + run.first * self.piece + run.at)
            return
        run.memory[:] = held[1][run.at : end]
        if end == len(held[1]):
            self.last.held = None

    def _read_first(self, fresh: Sequence[_Run]) -> None:
        """Fill memory with bytes of pieces that were not verified when they were asked for."""
        last = max(run.first for run in fresh)
        wholes = [run for run in fresh if run.is_whole]
        parts: dict[int, list[_Run]] = {}
        for run in fresh:
            if not run.is_whole:
                parts.setdefault(run.first, []).append(run)

        def read(work: Sequence[_Run]) -> None:
            if work[0].is_whole:
                self._verify_run(work[0])
            else:
                self._verify_piece(work, hold=work[0].first == last)

        size = sum(len(run.memory) for run in wholes) + len(parts) * self.piece
        for_each_run(read, [*([run] for run in wholes), *parts.values()], size)

    def _verify_run(self, run: _Run) -> None:
        """Fill memory with whole pieces, and compare them where nobody did."""
        self.file.fill(run.memory, self.offset + run.first * self.piece)
        for number in range(run.first, run.stop):
            at = (number - run.first) * self.piece
            self._compare(number, run.memory[at : at + self.piece])

    def _verify_piece(self, parts: Sequence[_Run], *, hold: bool) -> None:
        """Read all of a piece, compare it, and fill memory with bytes of it."""
        number = parts[0].first
        if self._is_verified[number]:  # by another thread, while this one waited
            for part in parts:
                self._read(part)
            return
        content = run_memory(min(self.piece, self.size - number * self.piece))
        self.file.fill(content, self.offset + number * self.piece)
        self._compare(number, content)
        ends = [part.at + len(part.memory) for part in parts]
        for part, end in zip(parts, ends, strict=True):
            part.memory[:] = content[part.at : end]
        if hold and max(ends) < len(content):
            self.last.held = self._key, number, bytes(content)

    def _compare(self, number: int, content: memoryview) -> None:
        """Raise `ProblemError` if a piece is another than its sum says."""
        if self._is_verified[number]:
            return
        if crc32(content) != int(self.sums[number]):
            location = self._location(number * self.piece, len(content))
            raise ProblemError(DamagedFile(self.file.path, location))
        self._is_verified[number] = True

    def _location(self, start: int, size: int) -> str:
        """A piece in words."""
        if len(self.sums) == 1:
            return f"`{self.name}`"
        rows = f"rows {start // self.row_bytes:,} to {(start + size - 1) // self.row_bytes:,}"
        return f"`{self.name}`, in bytes {start:,} to {start + size - 1:,} ({rows}),"
