"""Images and matrices that a program shows of its held-out examples, as files."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.io.files.atomic_write import replacing, write_text
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.records.mistakes import FILE, Mistakes
from meganeura_runtime.train.records.pictures import png, sheet

FOLDER = "shown"
"""The folder of the files, in that of the run."""
PICTURES = 16
"""Pictures of one evaluation, of examples that lie evenly among all of them."""


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
        self.mistakes = Mistakes()
        """The mistakes of a classifier."""

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
        """Write a file for each value; gives names and files. Raises `ProblemError`.

        The mistakes replace those of the evaluation before.
        """
        if self.mistakes.examples:
            write_text(_file(folder, FILE), json.dumps(self.mistakes.as_data(step)) + "\n")
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
