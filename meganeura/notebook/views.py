"""Programs, models and runs as HTML: all texts are escaped, and nothing else is loaded."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from meganeura.notebook.curves import Curves, charts, number
from meganeura_dsl.diagnostics.html import MONOSPACED, html_of
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.report import Report
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_runtime.train.report.run_summary import SPEED, summary_of

NOT_DRAWN = (LEARNING_RATE, SPEED)
"""Names of curves that are left to the page of a run."""


def program_html(
    name: str, source: str, facts: Sequence[tuple[str, str]], notes: Iterable[Report]
) -> str:
    """Returns a program: its name, its declarations, its notes, and its text below a fold."""
    said = html_of(notes) if (notes := tuple(notes)) else ""
    return f"{_head('program', name)}{_table(facts)}{said}{_folded('source', source)}"


def model_html(name: str, facts: Sequence[tuple[str, str]], layers: str) -> str:
    """Returns a model: its name, its inputs and weights, and the table of its layers."""
    return f"{_head('model', name)}{_table(facts)}{_folded('layers', layers)}"


def run_html(train: str, folder: Path, facts: Sequence[tuple[str, str]]) -> str:
    """Returns a run: what was measured, and its curves where its folder is still there."""
    try:
        drawn = charts(curves_of(folder))
    except ProblemError:
        drawn = ""
    return f"{_head('run', train)}{_table(facts)}{drawn}"


def curves_of(folder: Path) -> Curves:
    """Returns what the folder of a run has of its metrics. Raises `ProblemError`."""
    found: defaultdict[str, dict[str, list[tuple[float, float]]]] = defaultdict(dict)
    for curve in summary_of(folder).records.curves:
        if curve.name not in NOT_DRAWN:
            found[curve.name][curve.kind] = list(zip(curve.steps, curve.values, strict=True))
    return found


def measures(values: Iterable[tuple[str, float]]) -> str:
    """Returns `loss 0.026, accuracy 0.986`."""
    return ", ".join(f"{name} {number(value)}" for name, value in values)


def _head(kind: str, name: str) -> str:
    return f'<div><span style="opacity:0.75">{kind}</span> <b>{escape(name)}</b></div>'


def _table(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><td style="text-align:left;opacity:0.75">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts
        if value
    )
    return f"<table>{rows}</table>" if rows else ""


def _folded(title: str, text: str) -> str:
    shown = f'<pre style="{MONOSPACED}">{escape(text.rstrip())}</pre>'
    return f"<details><summary>{escape(title)}</summary>{shown}</details>"
