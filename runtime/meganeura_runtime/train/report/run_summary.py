"""A run in a few numbers: each metric at its end and at its best evaluation, and its settings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.settings.best_metric import LOWEST_LOSS, best_metric
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.io.files.folder_lock import is_locked
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report.report_problems import DamagedRun, NotARun
from meganeura_runtime.train.report.run_description import (
    LARGEST,
    RunDescription,
    Status,
    read_description,
)
from meganeura_runtime.train.report.run_records import HELD_OUT, STEP, RunRecords

SPEED = "steps_per_second"
BEST = "best"
"""The setting that says which evaluation is the best."""


@dataclass(frozen=True)
class Measure:
    """One curve in two numbers."""

    kind: str
    name: str
    final: float
    best: float | None
    """The value at the best evaluation; `None` for a curve that is not evaluated."""


@dataclass(frozen=True, eq=False)
class RunSummary:
    """All that is said of a run."""

    folder: Path
    records: RunRecords
    settings: Mapping[str, str]
    """The settings by name, those within others as `optimizer.lr`."""
    description: RunDescription | None
    """`None` for a run of a time before there was `run.json`."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @property
    def speed(self) -> float | None:
        """The median of steps per second, the first step left out, which compiles."""
        curve = self.records.curve(STEP, SPEED)
        values = [] if curve is None else [y for y in curve.values[1:] if not isnan(y)]
        return median(values) if values else None

    @property
    def best_step(self) -> float | None:
        """The step of the best evaluation, whose weights `best.safetensors` has."""
        chosen = best_metric(self.settings.get(BEST, LOWEST_LOSS))
        curve = self.records.curve(HELD_OUT, chosen.name)
        best: float | None = None
        found: float | None = None
        if curve is not None:
            first = self.records.compared_from.get((HELD_OUT, chosen.name), 0)
            for step, value in zip(curve.steps[first:], curve.values[first:], strict=True):
                if chosen.is_better(value, best):
                    best, found = value, step
        return found

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics at the end and at the best evaluation, the evaluated ones first."""
        best = self.best_step
        found = [
            Measure(
                each.kind,
                each.name,
                each.final,
                None if best is None or each.kind != HELD_OUT else each.at(best),
            )
            for each in self.records.curves
            if each.name not in (SPEED, LEARNING_RATE)
        ]
        return tuple(sorted(found, key=lambda each: each.kind != HELD_OUT))


def summary_of(folder: Path) -> RunSummary:
    """The summary of a run, also while it goes on. Raises `ProblemError`."""
    run_folder = RunFolder(folder)
    for path in (run_folder.settings, run_folder.metrics):
        if not path.is_file():
            raise ProblemError(NotARun(folder, path.name))
    records = RunRecords(run_folder.metrics)
    try:
        records.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProblemError(DamagedRun(run_folder.metrics, 0, reason)) from None
    found = read_description(run_folder.description)
    if found is not None and found.status is Status.RUNNING and not is_locked(folder):
        found = found.model_copy(update={"status": Status.LOST})
    return RunSummary(folder, records, read_settings(run_folder.settings), found)


def read_settings(path: Path) -> dict[str, str]:
    """The settings by name, as text. Raises `ProblemError`."""
    try:
        content = cast("object", json.loads(read_bytes(path, LARGEST)))
    except (TooLongError, ValueError, RecursionError) as error:
        raise ProblemError(DamagedRun(path, 0, str(error))) from None
    except OSError as error:
        raise ProblemError(DamagedRun(path, 0, error.strerror or str(error))) from None
    if not isinstance(content, dict):
        raise ProblemError(DamagedRun(path, 0, "it is no JSON object"))
    found = dict(_flat(cast("dict[str, object]", content)))
    try:
        best_metric(found.get(BEST, LOWEST_LOSS))
    except ValueError as error:
        raise ProblemError(DamagedRun(path, 0, f"`{BEST}` {error}")) from None
    return found


def _flat(settings: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    """Settings within settings by paths; what is empty or not set is left out."""
    for name, value in settings.items():
        match value:
            case dict():
                yield from _flat(cast("dict[str, object]", value), f"{before}{name}.")
            case None | []:
                pass
            case str():
                yield f"{before}{name}", value
            case _:
                yield f"{before}{name}", json.dumps(value)


def labels(summaries: Sequence[RunSummary]) -> tuple[str, ...]:
    """The names of runs, or as much of their paths as tells them apart."""
    parts = [each.folder.resolve().parts for each in summaries]
    most = max((len(each) for each in parts), default=1)
    for length in range(1, most + 1):
        found = tuple("/".join(each[-length:]) for each in parts)
        if len(set(found)) == len(set(parts)):
            return found
    return tuple(each.name for each in summaries)
