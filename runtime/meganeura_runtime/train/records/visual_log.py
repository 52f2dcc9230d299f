"""Images and matrices that a program shows of its held-out examples, as files."""

import json
import struct
import zlib
from collections.abc import Iterator
from math import ceil, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.files.atomic_write import replacing, write_text
from meganeura_runtime.io.tensors.stored_tensor import Array

FOLDER = "shown"
"""The folder of the files, in that of the run."""
PICTURES = 16
"""Pictures of one evaluation, of examples that lie evenly among all of them."""
GAP = 1
"""Pixels between two pictures."""


class _EvenSample:
    """Up to `PICTURES` of a series whose length is not known, evenly spaced.

    Every `stride`-th is kept; once there are twice as many as wanted, every second of them goes.
    """

    def __init__(self) -> None:
        self._kept: list[Array] = []
        self._stride = 1
        self._seen = 0

    def add(self, values: Array) -> None:
        """Take the next of the series, along the first axis."""
        for number, each in enumerate(values, self._seen):
            if number % self._stride == 0:
                self._kept.append(np.array(each))
            if len(self._kept) == 2 * PICTURES:
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self._seen += len(values)

    def chosen(self) -> list[Array]:
        """Returns those that are shown."""
        count = min(PICTURES, len(self._kept))
        return [self._kept[number * len(self._kept) // count] for number in range(count)]


class VisualLog:
    """The images and matrices of one evaluation."""

    def __init__(self) -> None:
        self._pictures: dict[str, _EvenSample] = {}
        self._matrices: dict[str, tuple[NDArray[np.float64], int]] = {}

    def add(self, name: str, examples: int, value: Array) -> None:
        """Take in what the program shows under a name of a batch of so many examples."""
        if value.ndim == 2:
            total, count = self._matrices.get(name, (np.zeros(value.shape), 0))
            self._matrices[name] = total + value.astype(np.float64) * examples, count + examples
            return
        self._pictures.setdefault(name, _EvenSample()).add(value)

    def matrix(self, name: str) -> NDArray[np.float64] | None:
        """Returns the mean of a matrix over the examples; None where there is none."""
        found = self._matrices.get(name)
        return None if found is None else found[0] / found[1]

    def write(self, folder: Path, step: int) -> Iterator[tuple[str, str]]:
        """Write a file for each value; gives names and files. Raises `ProblemError`."""
        for name, pictures in self._pictures.items():
            file = _file(folder, f"{name}-{step:08}.png")
            with replacing(file) as partial:
                partial.write_bytes(png(sheet(pictures.chosen())))
            yield name, file.name
        for name, (total, count) in self._matrices.items():
            file = _file(folder, f"{name}-{step:08}.json")
            rows = [[_number(each) for each in row] for row in total / count]
            write_text(file, json.dumps({"examples": count, "rows": rows}) + "\n")
            yield name, file.name


def _file(folder: Path, name: str) -> Path:
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    return target / name


def _number(value: float) -> float | None:
    return float(f"{value:.7g}") if np.isfinite(value) else None


def sheet(pictures: list[Array]) -> NDArray[np.uint8]:
    """Pictures of one size side by side, in rows: `[height, width, 3]`.

    Each is `[h, w]`, `[c, h, w]` or `[h, w, c]` with 1 or 3 channels, from 0 to 1.
    """
    drawn = [_colours(each) for each in pictures]
    height, width, _ = drawn[0].shape
    columns = ceil(sqrt(len(drawn)))
    rows = ceil(len(drawn) / columns)
    size = (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3)
    found = np.full(size, 128, np.uint8)
    for number, each in enumerate(drawn):
        top, left = number // columns * (height + GAP), number % columns * (width + GAP)
        found[top : top + height, left : left + width] = each
    return found


def _colours(picture: Array) -> NDArray[np.uint8]:
    """A picture as bytes, `[h, w, 3]`; what is beyond 0 and 1 is black or white."""
    if picture.ndim == 2:
        picture = picture[:, :, None]
    elif picture.shape[0] in (1, 3):
        picture = picture.transpose(1, 2, 0)
    scaled = np.clip(np.nan_to_num(picture.astype(np.float64)), 0, 1) * 255
    colours = np.rint(scaled).astype(np.uint8)
    return np.broadcast_to(colours, (*colours.shape[:2], 3))


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An image `[height, width, 3]` as a PNG file (W3C, 2003: 8 bits, truecolour, no filter)."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
