"""The folder of a run: what it was asked to do, what it measured, and what it learned."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.settings.resolve import RunSettings
from meganeura_runtime.checkpoint import Origin
from meganeura_runtime.tensors.atomic import write_text
from meganeura_runtime.tensors.problems import CannotWrite, NoSuchFile

STEP = re.compile(r'"step": (\d+)')
"""Where a line of the metrics says which step it is about."""


@dataclass(frozen=True)
class RunFolder:
    """Names of the files of a run, and the way to write those that are text."""

    path: Path

    @property
    def settings(self) -> Path:
        """The settings with all defaults and overrides in their places; the weights before."""
        return self.path / "settings.json"

    @property
    def metrics(self) -> Path:
        """One line of JSON for every log point and evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """The parameters at the end of the run."""
        return self.path / "weights.safetensors"

    @property
    def best(self) -> Path:
        """The parameters at the evaluation with the lowest loss."""
        return self.path / "best.safetensors"

    @property
    def checkpoint(self) -> Path:
        """All that is needed to go on."""
        return self.path / "checkpoint.safetensors"

    def forget_after(self, step: int) -> None:
        """Drop from `metrics.jsonl` what was measured after a step, and files never finished."""
        for partial in self.path.glob(".*.partial"):
            partial.unlink(missing_ok=True)
        if self.metrics.is_file():
            lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(self.metrics, "".join(line for line in lines if _is_by(step, line)))

    def write_settings(self, settings: RunSettings, weights: Sequence[Origin] = ()) -> None:
        """Write `settings.json`, which also tells what weights the run started from."""
        told = {**settings.model_dump(mode="json"), "weights": [dict(each) for each in weights]}
        write_text(self.settings, json.dumps(told, indent=2) + "\n")

    def add_metrics(self, record: Mapping[str, str | float]) -> None:
        """Add one line to `metrics.jsonl`. A number that is not finite becomes null."""
        finite = {name: value if _has_json(value) else None for name, value in record.items()}
        line = json.dumps(finite, allow_nan=False) + "\n"
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise ProblemError(CannotWrite(self.metrics, error.strerror or str(error))) from None


def new_folder(base: Path, name: str) -> RunFolder:
    """A folder that was not there before: `name-1`, `name-2`, ... under `base`."""
    number = 1
    while True:
        path = base / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
        else:
            return RunFolder(path)


def named_folder(path: Path) -> RunFolder:
    """A folder that the user named, which must be empty or not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        occupied = any(path.iterdir())
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
    if occupied:
        raise ProblemError(CannotWrite(path, "the folder is not empty"))
    return RunFolder(path)


def resumed_folder(path: Path) -> RunFolder:
    """The folder of an earlier run."""
    if not path.is_dir():
        raise ProblemError(NoSuchFile(path))
    return RunFolder(path)


def _is_by(step: int, line: str) -> bool:
    """Whether a whole line of the metrics speaks of a step up to this one."""
    found = STEP.search(line)
    return line.endswith("\n") and found is not None and int(found[1]) <= step


def _has_json(value: str | float) -> bool:
    return isinstance(value, str) or isfinite(value)
