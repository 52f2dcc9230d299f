"""Draws how steps scale: `python -m benchmarks.scaling_figure FIGURE.svg FILE...`.

The files hold lines of JSON of `scaling.py` and `scaling_torch.py`. There is a panel for each
model: its efficiency under weak scaling, the throughput over that of as many single devices.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import log2
from pathlib import Path

PANEL, HEIGHT, MARGIN, RIGHT = 240, 200, 44, 16
LOWEST = 0.5
COLOURS = {
    "ours, data": "#0072b2",
    "ours, fsdp": "#56b4e9",
    "PyTorch DDP": "#d55e00",
    "PyTorch FSDP2": "#e69f00",
}
TEXT = 'font-family="sans-serif" font-size="11" fill="#222222"'
Line = tuple[tuple[int, float], ...]
"""Numbers of devices, and the efficiency on so many."""


def lines(cells: Iterable[Mapping[str, object]]) -> dict[str, dict[str, Line]]:
    """For each model the lines of its panel, by name; a line starts at one device."""
    speeds: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for cell in cells:
        if cell["scaling"] != "weak" or cell.get("sync_batch_norm"):
            continue
        is_torch = "system" in cell
        system = "PyTorch" if is_torch else "ours"
        found = speeds.setdefault((str(cell["model"]), system), {})
        one = found.setdefault(str(cell["sharding"]), {})
        one[int(str(cell["devices"]))] = float(str(cell["examples_per_second"]))
    panels: dict[str, dict[str, Line]] = {}
    for (model, system), shardings in speeds.items():
        alone = shardings["data"][1]
        for sharding, by_count in shardings.items():
            name = f"ours, {sharding}"
            if system == "PyTorch":
                name = "PyTorch DDP" if sharding == "data" else "PyTorch FSDP2"
            points = {1: alone, **by_count}
            panels.setdefault(model, {})[name] = tuple(
                (count, points[count] / (count * alone)) for count in sorted(points)
            )
    return panels


def figure(panels: Mapping[str, Mapping[str, Line]]) -> str:
    """An SVG of all panels beside each other."""
    marks = [
        mark
        for place, (model, found) in enumerate(panels.items())
        for mark in _panel(model, found, place * PANEL)
    ]
    for place, (name, colour) in enumerate(COLOURS.items()):
        at = f'x="{MARGIN + 130 * place}" y="{HEIGHT + 14}"'
        marks.append(f"<text {at} {TEXT.replace('#222222', colour)}>{name}</text>")
    size = f'width="{max(PANEL * len(panels), 560)}" height="{HEIGHT + 24}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="none">'
    return "\n".join([opening, f'<rect {size} fill="white"/>', *marks, "</svg>", ""])


def _panel(model: str, found: Mapping[str, Line], left: float) -> Iterator[str]:
    counts = sorted({count for line in found.values() for count, _ in line})
    width = PANEL - MARGIN - RIGHT

    def at(count: int, efficiency: float) -> tuple[float, float]:
        across = log2(count) / max(1.0, log2(counts[-1])) * width
        down = (1.05 - max(efficiency, LOWEST)) / (1.05 - LOWEST) * (HEIGHT - 2 * MARGIN)
        return left + MARGIN + across, MARGIN + down

    yield f'<text x="{left + MARGIN}" y="24" {TEXT}>{model}: efficiency by devices</text>'
    for tenths in range(int(10 * LOWEST), 11):
        _, y = at(1, tenths / 10)
        yield f'<path d="M{left + MARGIN} {y:.1f}h{width}" stroke="#dddddd"/>'
        label = f'x="{left + MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end" {TEXT}'
        yield f"<text {label}>{tenths / 10:g}</text>"
    for count in counts:
        x, _ = at(count, 1.0)
        middle = f'x="{x:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle" {TEXT}'
        yield f"<text {middle}>{count}</text>"
    for name, line in found.items():
        points = [at(*point) for point in line]
        for (x, y), (u, v) in pairwise(points):
            yield f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke="{COLOURS[name]}"/>'
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[name]}"/>'


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description="Draw how training steps scale over devices.")
    parser.add_argument("figure", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    texts = [line for file in options.files for line in file.read_text().splitlines()]
    cells = [json.loads(text) for text in texts if text.startswith("{")]
    options.figure.write_text(figure(lines(cells)))


if __name__ == "__main__":
    main()
