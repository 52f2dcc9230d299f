"""The data of a page as JSON: curves with a bounded number of points, tables, states."""

from collections.abc import Sequence
from math import isfinite
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.settings.best_metric import LOWEST_LOSS, best_metric
from meganeura_runtime.train.report.run_records import Curve, TextWritten
from meganeura_runtime.train.report.run_summary import BEST, RunSummary, labels
from meganeura_runtime.train.report.shown_data import mistakes_data, shown_data

POINTS = 20_000
"""Points of all curves of a page together."""
MOST = 1_500
"""Points of one curve."""
FEWEST = 100
LISTED = 2_000
"""Parameters that are listed."""
SAMPLES = 50
"""Texts that a model wrote, of which a page has the last."""
LONGEST = 4_000
"""Characters of such a text; the rest is left out."""
DIGITS = 6
"""Significant digits of a number on the page."""


class CurveData(TypedDict):
    """A curve; where it has more records than points, each is a mean and the range about it."""

    kind: str
    name: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]


def run_data(summary: RunSummary, label: str = "", points: int = POINTS) -> dict[str, object]:
    """A run, as the page reads it; its label tells it from other runs of the page."""
    about = summary.description
    curves = summary.records.curves
    most = min(MOST, max(FEWEST, points // max(1, len(curves))))
    return {
        "name": summary.name,
        "label": label or summary.name,
        "folder": str(summary.folder),
        "step": summary.records.last_step,
        "speed": summary.speed,
        "about": None if about is None else about.model_dump(mode="json", exclude={"parameters"}),
        "parameters": _parameters(summary),
        "settings": list(summary.settings.items()),
        "measures": [
            [each.kind, each.name, _number(each.final), _number(each.best)]
            for each in summary.measures
        ],
        "best_step": summary.best_step,
        "best_by": best_metric(summary.settings.get(BEST, LOWEST_LOSS)).name,
        "curves": [thinned(each, most) for each in curves],
        "samples": [] if label else samples_data(summary.records.samples),
        "shown": [] if label else shown_data(summary.folder, summary.records.shown),
        "mistakes": None if label else mistakes_data(summary.folder),
    }


def samples_data(samples: Sequence[TextWritten]) -> list[dict[str, object]]:
    """The last texts that a model wrote, the newest first."""
    return [
        {"step": each.step, "prompt": each.prompt[:LONGEST], "text": each.text[:LONGEST]}
        for each in samples[: -SAMPLES - 1 : -1]
    ]


def runs_data(summaries: Sequence[RunSummary]) -> list[dict[str, object]]:
    """Several runs, which share the points of a page."""
    points = POINTS // max(1, len(summaries))
    named = zip(summaries, labels(summaries), strict=True)
    return [run_data(each, label, points) for each, label in named]


def thinned(curve: Curve, most: int) -> CurveData:
    """A curve of at most so many points: means of equal shares of its values, and their ranges."""
    steps, values = np.frombuffer(curve.steps), np.frombuffer(curve.values)
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) <= most:
        return _data(curve, steps, values, [], [])
    edges = np.linspace(0, len(values), most + 1).astype(np.int64)
    first, share = edges[:-1], np.diff(edges)
    return _data(
        curve,
        np.rint(np.add.reduceat(steps, first) / share),
        np.add.reduceat(values, first) / share,
        _numbers(np.minimum.reduceat(values, first)),
        _numbers(np.maximum.reduceat(values, first)),
    )


def _data(
    curve: Curve,
    steps: NDArray[np.float64],
    values: NDArray[np.float64],
    low: list[float],
    high: list[float],
) -> CurveData:
    return CurveData(
        kind=curve.kind,
        name=curve.name,
        x=[int(each) for each in steps],
        y=_numbers(values),
        low=low,
        high=high,
    )


def _numbers(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{each:.{DIGITS}g}") for each in values]


def _number(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else value


def _parameters(summary: RunSummary) -> dict[str, object]:
    """The first parameters of a run, and sums over all of them."""
    every = () if summary.description is None else summary.description.parameters
    params = [each for each in every if each.kind == "param"]
    trained = [each for each in params if each.moves]
    return {
        "count": len(params),
        "elements": sum(each.elements for each in params),
        "trained": sum(each.elements for each in trained),
        "trained_count": len(trained),
        "states": len(every) - len(params),
        "rows": [
            [each.name, each.type, each.kind, each.elements, each.moves] for each in every[:LISTED]
        ],
        "left_out": max(0, len(every) - LISTED),
    }
