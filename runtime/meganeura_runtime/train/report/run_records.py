"""The measurements of a run: the records of its `metrics.jsonl`, as curves.

Records are read as they are: whatever a kind of record has that is a number becomes a curve.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import opened
from meganeura_runtime.train.report.report_problems import DamagedRun

STEP, EPOCH, HELD_OUT = "step", "epoch", "held_out"
"""Kinds of records: a logged step, the mean of an epoch, an evaluation."""

NOT_MEASURED = ("kind", "step", "epoch", "steps", "seconds")
"""Keys of a record that are no measurements."""


@dataclass(frozen=True)
class Curve:
    """One number of one kind of record, over the steps of the run."""

    kind: str
    name: str
    steps: array[float] = field(default_factory=lambda: array("d"))
    """Counted from 1."""
    values: array[float] = field(default_factory=lambda: array("d"))
    """NaN where it was not finite."""

    @property
    def final(self) -> float:
        """The last value."""
        return self.values[-1]

    def at(self, step: float) -> float | None:
        """The value at a step; `None` where there is none."""
        return next((y for x, y in zip(self.steps, self.values, strict=True) if x == step), None)


@dataclass(frozen=True)
class ShownFile:
    """A file of what the program shows, made by the evaluation after a step."""

    name: str
    file: str
    step: int


@dataclass(frozen=True)
class TextWritten:
    """A sample of a language model after a step."""

    step: int
    prompt: str
    text: str
    """The text after the prompt."""


class RunRecords:
    """The records of a file that may still grow."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._read_to = 0
        self._lines = 0
        self._curves: dict[tuple[str, str], Curve] = {}
        self.last_step = 0
        self.compared_from: dict[tuple[str, str], int] = {}
        """The first value of each curve that counts for the best: another metric chose before."""
        self.shown: list[ShownFile] = []
        self.samples: list[TextWritten] = []

    @property
    def curves(self) -> tuple[Curve, ...]:
        """All curves, in the order in which they began."""
        return tuple(self._curves.values())

    def curve(self, kind: str, name: str) -> Curve | None:
        """The curve of a kind of record and a name, if there is one."""
        return self._curves.get((kind, name))

    def read(self) -> None:
        """Take in the lines that were added; the last one is left if it is not whole yet.

        Raises `ProblemError` for a line that is no record, and `OSError`.
        """
        with opened(self._path) as file:
            found = self._path.stat()
            if found.st_ino != self._file or found.st_size < self._read_to:
                self._begin_again(found.st_ino)
            file.seek(self._read_to)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._lines += 1
            try:
                self._add(self._record(line))
            except OverflowError as error:  # a number of so many digits is none that a run writes
                raise ProblemError(DamagedRun(self._path, self._lines, str(error))) from None
        self._read_to += len(whole)

    def _begin_again(self, file: int) -> None:
        """The file was replaced, as when a run goes on from an earlier step."""
        self._file, self._read_to, self._lines, self.last_step = file, 0, 0, 0
        self._curves.clear()
        self.compared_from.clear()
        self.shown.clear()
        self.samples.clear()

    def _record(self, line: bytes) -> dict[str, object]:
        try:
            record = cast("object", json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ProblemError(DamagedRun(self._path, self._lines, str(error))) from None
        match record:
            case {"kind": str(), "step": int(step)} if step >= 0:
                return cast("dict[str, object]", record)
            case {"kind": str(), "step": int()}:
                reason = "its `step` is below 0"
                raise ProblemError(DamagedRun(self._path, self._lines, reason))
            case _:
                reason = "it has no `kind` and `step`"
                raise ProblemError(DamagedRun(self._path, self._lines, reason))

    def _add(self, record: dict[str, object]) -> None:
        kind, step = str(record["kind"]), cast("int", record["step"])
        self.last_step = max(self.last_step, step)
        match record:
            case {"kind": "shown", "name": str(name), "file": str(file)}:
                self.shown.append(ShownFile(name, file, step))
            case {"kind": "sample", "prompt": str(prompt), "text": str(text)}:
                self.samples.append(TextWritten(step, prompt, text))
            case {"kind": "best"}:
                self.compared_from = {key: len(each.steps) for key, each in self._curves.items()}
            case _:
                pass
        for name, value in record.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if name in NOT_MEASURED or not (is_number or value is None):
                continue
            curve = self._curves.setdefault((kind, name), Curve(kind, name))
            curve.steps.append(step)
            curve.values.append(nan if value is None else float(cast("float", value)))
