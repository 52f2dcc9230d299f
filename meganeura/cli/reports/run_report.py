"""A run drawn in the terminal, and several of them in a table."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite, log
from operator import itemgetter
from typing import TYPE_CHECKING

from meganeura.cli.ui.narration import clock
from meganeura_dsl.diagnostics.plain_table import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from meganeura_runtime.train.report.run_records import Curve
    from meganeura_runtime.train.report.run_summary import RunSummary

BLOCKS = " ▁▂▃▄▅▆▇█"
"""A cell of a terminal, filled from below by eighths."""
PLAIN = " #"
"""The same where the output has no such characters."""
ROWS = 5
LABEL = 10
"""Columns of the numbers beside a curve."""
STEEP = 10
"""The ratio of the largest to the least value from which a curve's axis is logarithmic."""
KINDS = {"step": "training", "epoch": "epoch mean", "held_out": "held out"}
NOTHING = "-"


def run_text(summary: "RunSummary", columns: int, encoding: str) -> str:
    """Each curve of a run, and what it came to, in so many columns of characters it has."""
    blocks = blocks_of(encoding)
    drawn = [_drawn(each, columns, blocks) for each in summary.records.curves]
    return "\n\n".join([_headline(summary), *(each for each in drawn if each)])


def blocks_of(encoding: str) -> str:
    """Returns the characters that fill a cell, from empty to full."""
    try:
        BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def _headline(summary: "RunSummary") -> str:
    about = summary.description
    headline = f"{summary.name}: {summary.records.last_step:,} steps"
    if about is None:
        return headline
    return f"{headline} on {about.device} in {clock(about.seconds)}, {about.status}"


def _drawn(curve: "Curve", columns: int, blocks: str) -> str:
    """A curve of blocks, a line about it above; nothing where no value is finite."""
    known = [
        (step, value)
        for step, value in zip(curve.steps, curve.values, strict=True)
        if isfinite(value)
    ]
    if not known:
        return ""
    values = _resampled(known, max(1, min(columns, 100) - LABEL - 1))
    low, high = min(values), max(values)
    is_log = low > 0 and high > STEEP * low
    scaled = [log(each) if is_log else each for each in values]
    first, last = known[0][1], known[-1][1]
    scale = ", by its logarithm" if is_log else ""
    title = f"{_title(curve.kind, curve.name)}: {first:.4g} to {last:.4g}{scale}"
    return "\n".join([title, *_rows(scaled, low, high, blocks)])


def _rows(values: Sequence[float], low: float, high: float, blocks: str) -> Iterator[str]:
    """Rows of blocks from the top; the first and the last have the number they stand for."""
    bottom, top = min(values), max(values)
    full = len(blocks) - 1
    height = ROWS * full - 1
    heights = [1 + round((each - bottom) / (top - bottom or 1) * height) for each in values]
    for row in reversed(range(ROWS)):
        label = f"{high:.4g}" if row == ROWS - 1 else f"{low:.4g}" if row == 0 else ""
        filled = (min(full, max(0, each - row * full)) for each in heights)
        yield f"{label:>{LABEL}} {''.join(blocks[each] for each in filled)}".rstrip()


def _resampled(known: Sequence[tuple[float, float]], columns: int) -> list[float]:
    """The mean of the values of each column; where one has none, that of the column before."""
    known = sorted(known, key=itemgetter(0))
    first, last = known[0][0], known[-1][0]
    wide = max(1.0, last - first)
    cells: list[list[float]] = [[] for _ in range(columns)]
    for step, value in known:
        cells[min(columns - 1, int((step - first) / wide * columns))].append(value)
    found: list[float] = []
    for cell in cells:
        found.append(sum(cell) / len(cell) if cell else found[-1])
    return found


def comparison_text(summaries: Sequence["RunSummary"], names: Sequence[str]) -> str:
    """A column for each run: its metrics, what it took, and the settings that differ."""
    rows = [["", *names], *_metrics(summaries), *_facts(summaries)]
    differ = list(_differences(summaries))
    if differ:
        rows += [[""] * (len(names) + 1), *differ]
    return table(rows, right=range(1, len(names) + 1))


def _metrics(summaries: Sequence["RunSummary"]) -> Iterator[list[str]]:
    """The metrics that were evaluated, at the end and at their best, and the means of epochs."""
    measured = [
        {(each.kind, each.name): each for each in summary.measures} for summary in summaries
    ]
    for kind, name in dict.fromkeys(key for each in measured for key in each):
        found = [each.get((kind, name)) for each in measured]
        title = _title(kind, name)
        if kind == "held_out":
            yield [f"{title}, final", *(_number(each and each.final) for each in found)]
            yield [
                f"{title}, at the best evaluation",
                *(_number(each and each.best) for each in found),
            ]
        elif kind != "step":
            yield [title, *(_number(each and each.final) for each in found)]


def _facts(summaries: Sequence["RunSummary"]) -> Iterator[list[str]]:
    """Yields the steps, the speed and the device of each run."""

    def row(name: str, of: "Callable[[RunSummary], str]") -> list[str]:
        return [name, *(of(each) for each in summaries)]

    yield row("steps", lambda each: f"{each.records.last_step:,}")
    yield row("steps per second", lambda each: _number(each.speed))
    yield row("time", lambda each: clock(each.description.seconds) if each.description else NOTHING)
    yield row("status", lambda each: str(each.description.status) if each.description else NOTHING)
    yield row("device", lambda each: each.description.device if each.description else NOTHING)


def _differences(summaries: Sequence["RunSummary"]) -> Iterator[list[str]]:
    """The settings that are not the same in all runs."""
    for name in dict.fromkeys(name for each in summaries for name in each.settings):
        values = [each.settings.get(name, NOTHING) for each in summaries]
        if any(one != other for one, other in pairwise(values)):
            yield [name, *values]


def _title(kind: str, name: str) -> str:
    return f"{name.replace('_', ' ')}, {KINDS.get(kind, kind.replace('_', ' '))}"


def _number(value: float | None) -> str:
    return NOTHING if value is None or not isfinite(value) else f"{value:.4g}"
