"""Arrays that lie in several files, joined along the first axis."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.tensors.file_array import HELD, Array, InFile, Rows, RowSource
from meganeura_runtime.io.tensors.verified_pieces import LastPiece


@dataclass(frozen=True, eq=False)
class Joined(RowSource):
    """Parts of one type, whose shapes differ in the first size alone, one after the other."""

    parts: tuple[Array | RowSource, ...]
    files: tuple[Path, ...]
    """The file of each part."""
    shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[np.generic] = field(init=False)
    starts: NDArray[np.int64] = field(init=False)
    """The number of the first row of each part, and at last that of all rows."""

    def __post_init__(self) -> None:
        starts = np.cumsum([0, *(len(part) for part in self.parts)], dtype=np.int64)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "shape", (int(starts[-1]), *self.parts[0].shape[1:]))
        object.__setattr__(self, "dtype", self.parts[0].dtype)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of rows of each part."""
        return tuple(len(part) for part in self.parts)

    def __getitem__(self, rows: Rows) -> Array:
        """Some rows, as memory of their own; raises `ProblemError` if a file has changed."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._run(start, max(start, stop))
            rows = np.arange(start, stop, step)
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        part_of = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(part_of).tolist():
            here = part_of == number
            found[here] = self.parts[number][rows[here] - self.starts[number]]
        return found

    def _run(self, start: int, stop: int) -> Array:
        """Rows that follow each other."""
        found = np.empty((stop - start, *self.shape[1:]), self.dtype)
        for part, first in zip(self.parts, self.starts[:-1].tolist(), strict=True):
            low, high = max(start, first), min(stop, first + len(part))
            if low < high:
                found[low - start : high - start] = part[low - first : high - first]
        return found


def joined(parts: Sequence[Array | RowSource], files: Sequence[Path]) -> Array | RowSource:
    """Parts as one array. No part is cached where all together are too large for that."""
    if len(parts) == 1:
        return parts[0]
    size = sum(part.itemsize * prod(part.shape) for part in parts)
    held = [
        replace(part, is_held=False) if isinstance(part, InFile) and size > HELD else part
        for part in parts
    ]
    last = LastPiece()  # one of them for all parts, of which there may be thousands
    for part in held:
        if isinstance(part, InFile) and part.pieces is not None:
            part.pieces.last = last
    return Joined(tuple(held), tuple(files))
