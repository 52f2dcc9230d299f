"""Images and matrices of a run for its page: images as data, matrices as numbers."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any, cast

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.train.records.mistakes import FILE as MISTAKES
from meganeura_runtime.train.records.mistakes import MOST
from meganeura_runtime.train.records.visual_log import FOLDER
from meganeura_runtime.train.report.report_problems import DamagedRun
from meganeura_runtime.train.report.run_records import ShownFile

BUDGET = 400_000
"""Characters of a page for what is shown."""
LARGEST = 64
"""Rows and columns of a matrix on a page; a larger one is drawn by means of its blocks."""
FILE = 16
"""MiB of a file that is read."""
DAMAGES = (OSError, TooLongError, ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""Errors of a file that is no matrix: other keys, values that are no numbers, deep nesting."""


def shown_data(folder: Path, shown: Sequence[ShownFile]) -> list[dict[str, Any]]:
    """Returns the newest frames of each name, as many as fit, by step. Raises `ProblemError`."""
    names = dict.fromkeys(each.name for each in shown)
    return [
        {"name": name, "frames": list(_frames(folder, shown, name, BUDGET // len(names)))[::-1]}
        for name in names
    ]


def mistakes_data(folder: Path) -> dict[str, Any] | None:
    """Returns the mistakes of the last evaluation, if any are kept. Raises `ProblemError`."""
    path = folder / FOLDER / MISTAKES
    if not path.is_file():
        return None
    try:
        found = cast("dict[str, Any]", json.loads(read_bytes(path, FILE)))
        return {
            **{name: int(found[name]) for name in ("step", "examples", "count")},
            "worst": [
                {
                    **{name: int(each[name]) for name in ("number", "label", "predicted")},
                    "share": None if each["share"] is None else float(each["share"]),
                    "picture": _picture(each["picture"]),
                }
                for each in found["worst"][:MOST]
            ],
        }
    except DAMAGES as error:
        raise ProblemError(DamagedRun(path, 0, str(error))) from None


def _picture(encoded: object) -> str | None:
    """Returns the address of a PNG file in base64; None where there is none."""
    if encoded is None:
        return None
    content = b64decode(str(encoded), validate=True)
    return f"data:image/png;base64,{b64encode(content).decode()}"


def _frames(
    folder: Path, shown: Sequence[ShownFile], name: str, budget: int
) -> Iterator[dict[str, Any]]:
    """The frames of a name from the newest on; the newest is there whatever it takes, in reason."""
    left = budget
    for number, each in enumerate(one for one in reversed(shown) if one.name == name):
        frame = _frame(folder / FOLDER / Path(each.file).name)
        size = len(json.dumps(frame))
        left -= size
        if left < 0 and (number or size > BUDGET):
            return
        yield {"step": each.step, **frame}


def _frame(path: Path) -> dict[str, Any]:
    try:
        content = read_bytes(path, FILE)
        if path.suffix == ".png":
            return {"picture": f"data:image/png;base64,{b64encode(content).decode()}"}
        matrix = cast("dict[str, Any]", json.loads(content))
        values, examples = np.array(matrix["rows"], np.float64), int(matrix["examples"])
        rows, columns = values.shape
    except DAMAGES as error:
        raise ProblemError(DamagedRun(path, 0, str(error))) from None
    by = max(ceil(rows / LARGEST), ceil(columns / LARGEST))
    blocks = [
        [_mean(values[i : i + by, j : j + by]) for j in range(0, columns, by)]
        for i in range(0, rows, by)
    ]
    return {"rows": blocks, "by": by, "examples": examples}


def _mean(block: "np.ndarray[Any, np.dtype[np.float64]]") -> float | None:
    mean = float(block.mean())
    return float(f"{mean:.5g}") if np.isfinite(mean) else None
