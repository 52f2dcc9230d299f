"""Curves of a run as SVG, for a cell of a notebook; `report.html` of the run has more."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import isfinite

Points = Sequence[tuple[float, float]]
"""Steps and values, in the order of the steps."""
Curves = Mapping[str, Mapping[str, Points]]
"""The points of each metric by its name, and then by the kind of the record."""

KINDS = {
    "step": ("training", "#3d7fc4"),
    "epoch": ("epoch mean", "#2f8f5b"),
    "held_out": ("held out", "#c2691c"),
}
"""The words and the colour of each kind of record that is drawn."""
MOST_CHARTS = 4
MOST_POINTS = 300
"""Points of one curve that are drawn; of more, evenly chosen ones."""
WIDTH, HEIGHT = 320, 150
LINE, DOT = 1.6, 5
"""The width of a curve, and of a single point."""
LEFT, RIGHT, TOP, BOTTOM = 62, 8, 8, 20


def charts(curves: Curves, steps: float = 0) -> str:
    """Returns the first metrics, each with its curves on one pair of axes, which end at `steps`."""
    drawn = [_chart(name, kinds, steps) for name, kinds in curves.items() if _is_drawn(kinds)]
    shown = "".join(drawn[:MOST_CHARTS])
    return (
        f'<div style="display:flex;flex-wrap:wrap;align-items:end;gap:8px 20px">{shown}</div>'
        if shown
        else ""
    )


def number(value: float) -> str:
    """Returns a number in at most four digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.4g}"


def _is_drawn(kinds: Mapping[str, Points]) -> bool:
    return any(isfinite(y) for kind in KINDS for _, y in kinds.get(kind, ()))


def _chart(name: str, kinds: Mapping[str, Points], steps: float) -> str:
    lines = {kind: _chosen(kinds.get(kind, ())) for kind in KINDS}
    lines = {kind: points for kind, points in lines.items() if points}
    values = [y for points in lines.values() for _, y in points]
    last = max(steps, *(points[-1][0] for points in lines.values()), 1)
    low, high = min(values), max(values)
    if low == high:
        low, high = low - abs(low) / 2 - (low == 0), high + abs(high) / 2 + (high == 0)

    def at(x: float, y: float) -> str:
        across = LEFT + x / last * (WIDTH - LEFT - RIGHT)
        down = TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    axes = f'<polyline points="{at(0, high)} {at(0, low)} {at(last, low)}" stroke="currentColor" />'
    drawn = "".join(
        f'<polyline points="{" ".join(at(x, y) for x, y in points)}" stroke="{KINDS[kind][1]}" '
        f'stroke-width="{LINE if len(points) > 1 else DOT}" stroke-linecap="round" />'
        for kind, points in lines.items()
    )
    said = {kind: f"{KINDS[kind][0]} {number(points[-1][1])}" for kind, points in lines.items()}
    label = escape(", ".join([name, *said.values()]))
    keys = "".join(
        f'<span style="white-space:nowrap"><b style="color:{KINDS[kind][1]}">&#9644;</b> {each}'
        "</span>"
        for kind, each in said.items()
    )
    return (
        f'<figure style="margin:0;width:{WIDTH}px;max-width:100%">'
        f'<figcaption style="display:flex;flex-wrap:wrap;gap:0 10px"><b>{escape(name)}</b>{keys}'
        f'</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" fill="none" '
        f'style="width:100%" aria-label="{label}">'
        f'<g stroke-opacity="0.35">{axes}</g>{drawn}'
        '<g fill="currentColor" font-size="11" text-anchor="end">'
        f'<text x="{LEFT - 6}" y="{TOP + 4}">{number(high)}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM + 4}">{number(low)}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}">step {last:,.0f}</text></g></svg></figure>'
    )


def _chosen(points: Points) -> Points:
    """Returns the finite points, evenly thinned, with the last."""
    return list(_thinned([each for each in points if isfinite(each[1])]))


def _thinned(points: Points) -> Iterator[tuple[float, float]]:
    every = -(-len(points) // MOST_POINTS)
    for place, each in enumerate(points):
        if place % every == 0 or place == len(points) - 1:
            yield each
