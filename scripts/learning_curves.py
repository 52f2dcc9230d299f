"""Draws what training runs measured: `learning_curves.py FIGURE.svg RUN...`.

One panel for each run folder: the loss of the steps as a line, of the held-out examples as dots,
both on a logarithmic scale, and the last accuracy beside the name of the folder.
"""

import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import cast

WIDTH, HEIGHT, MARGIN = 240, 160, 36
TEXT = 'font-family="sans-serif" font-size="11"'
LINE, DOT, GRID = "#2a6fbb", "#d1495b", "#dddddd"


@dataclass(frozen=True)
class Point:
    """One measurement."""

    step: int
    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class Run:
    """The measurements of one run."""

    name: str
    trained: tuple[Point, ...]
    held_out: tuple[Point, ...]

    @property
    def title(self) -> str:
        """The name, and the accuracy at the end."""
        last = (self.held_out or self.trained)[-1].accuracy
        kind = "held out" if self.held_out else "of the text"
        return self.name if last is None else f"{self.name}: {100 * last:.1f}% {kind}"


def read_run(folder: Path) -> Run:
    """The metrics of a run folder."""
    kinds: dict[str, list[Point]] = {"step": [], "held_out": []}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        entry = cast("dict[str, float]", json.loads(line))
        found = kinds.get(str(entry["kind"]))
        if found is not None:
            found.append(Point(int(entry["step"]), entry["loss"], entry.get("accuracy")))
    return Run(folder.name, tuple(kinds["step"]), tuple(kinds["held_out"]))


def panel(run: Run, left: float) -> list[str]:
    """The marks of one run, its panel beginning at `left`."""
    points = (*run.trained, *run.held_out)
    last = max(point.step for point in points)
    low = int(min(log10(point.loss) for point in points) // 1)
    high = -int(-max(log10(point.loss) for point in points) // 1)

    def across(point: Point) -> float:
        return left + MARGIN + point.step / last * (WIDTH - MARGIN - 8)

    def down(loss: float) -> float:
        return MARGIN + (high - log10(loss)) / (high - low) * (HEIGHT - 2 * MARGIN + 12)

    marks = [f'<text x="{left + MARGIN}" y="18" {TEXT}>{run.title}</text>']
    for power in range(low, high + 1):
        y = down(10.0**power)
        marks.append(f'<path d="M{left + MARGIN} {y:.1f}h{WIDTH - MARGIN - 8}" stroke="{GRID}"/>')
        label = f'x="{left + MARGIN - 4}" y="{y + 4:.1f}" text-anchor="end" {TEXT}'
        marks.append(f"<text {label}>{10.0**power:g}</text>")
    for before, after in pairwise(run.trained):
        ends = f"M{across(before):.1f} {down(before.loss):.1f}L{across(after):.1f} "
        marks.append(f'<path d="{ends}{down(after.loss):.1f}" stroke="{LINE}"/>')
    marks += [
        f'<circle cx="{across(point):.1f}" cy="{down(point.loss):.1f}" r="2.5" fill="{DOT}"/>'
        for point in run.held_out
    ]
    label = f'x="{left + WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" {TEXT}'
    return [*marks, f"<text {label}>{last} steps</text>"]


def main() -> None:
    """Write the figure."""
    target, *folders = (Path(argument) for argument in sys.argv[1:])
    runs = [read_run(folder) for folder in folders]
    marks = [mark for place, run in enumerate(runs) for mark in panel(run, place * WIDTH)]
    size = f'width="{WIDTH * len(runs)}" height="{HEIGHT}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="none">'
    paper = f'<rect {size} fill="white"/>'
    body = "\n".join([opening, paper, *marks, "</svg>"]).replace("<text ", '<text fill="#222222" ')
    target.write_text(f"{body}\n")


if __name__ == "__main__":
    main()
