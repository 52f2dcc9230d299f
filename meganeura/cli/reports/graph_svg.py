"""A graph before and after as SVG: a layered drawing, made without any library.

Shown is what depends on an input: parameters, and what is made of them alone, would hide it.
A value stands below all it reads, as near as may be to the middle of them. Fused ops are coloured,
and a pointer over a box shows its type, its layer and its line.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.fused.base import Fused

WIDTH, HEIGHT = 128, 20
COLUMN, ROW = 144, 36
MARGIN = 48
TITLE = 12
COLOURS = {
    "input": ("#cfe5ff", "#4a7fb5"),
    "fused": ("#ffd98a", "#b07c00"),
    "op": ("#f2f2f2", "#999"),
}
"""The fill and stroke of a box."""

TEXT = 'font-family="sans-serif" font-size="11" fill="#222"'
LINE = 'fill="none" stroke="#999"'


@dataclass(frozen=True)
class Drawing:
    """One graph, laid out: where each value stands, in pixels, and how much room all take."""

    title: str
    shown: Sequence[Value]
    positions: Mapping[int, tuple[float, float]]
    width: float
    height: float


def graph_svg(before: Graph, after: Graph, *, as_page: bool) -> str:
    """Both graphs side by side, as an SVG file or as an HTML page around it."""
    drawings = [lay_out("before", before), lay_out("after", after)]
    width = sum(each.width for each in drawings)
    height = max(each.height for each in drawings)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {TEXT}>']
    start = 0.0
    for each in drawings:
        lines += [f'<g transform="translate({start:.0f} 0)">', *_drawn(each), "</g>"]
        start += each.width
    svg = "\n".join([*lines, "</svg>"])
    head = '<!doctype html><meta charset="utf-8"><title>before and after</title>'
    return f"{head}\n{svg}\n" if as_page else f"{svg}\n"


def lay_out(title: str, graph: Graph) -> Drawing:
    """Places for all values that depend on an input."""
    shown = _of_inputs(graph)
    layers: defaultdict[int, list[Value]] = defaultdict(list)
    depth: dict[int, int] = {}
    for value in shown:
        above = [depth[operand.id] for operand in value.operands if operand.id in depth]
        depth[value.id] = 1 + max(above, default=-1)
        layers[depth[value.id]].append(value)
    widest = max((len(layer) for layer in layers.values()), default=1)
    middle = MARGIN + COLUMN * widest / 2
    positions: dict[int, tuple[float, float]] = {}
    for number, layer in sorted(layers.items()):
        layer.sort(key=lambda value: _wish(value, positions, middle))
        first = middle - COLUMN * (len(layer) - 1) / 2
        for column, value in enumerate(layer):
            positions[value.id] = (first + COLUMN * column, MARGIN + TITLE + ROW * number)
    height = 2 * MARGIN + TITLE + ROW * len(layers)
    heading = f"{title}: {len(shown):,} of {len(graph.values):,} values"
    return Drawing(heading, shown, positions, 2 * MARGIN + COLUMN * widest, height)


def _of_inputs(graph: Graph) -> list[Value]:
    found: dict[int, Value] = {}
    for value in graph.values:
        reads = any(operand.id in found for operand in value.operands)
        if reads or isinstance(value.op, Input):
            found[value.id] = value
    return list(found.values())


def _wish(value: Value, positions: Mapping[int, tuple[float, float]], middle: float) -> float:
    """Returns the wanted position of a value: below the mean of its operands."""
    above = [positions[operand.id][0] for operand in value.operands if operand.id in positions]
    return sum(above) / len(above) if above else middle


def _drawn(drawing: Drawing) -> Iterator[str]:
    yield f'<text x="{MARGIN}" y="{MARGIN / 2}">{escape(drawing.title)}</text>'
    for value in drawing.shown:
        for operand in value.operands:
            if operand.id in drawing.positions:
                yield _line(drawing.positions[operand.id], drawing.positions[value.id])
    for value in drawing.shown:
        yield _box(value, *drawing.positions[value.id])


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve between two boxes; one that passes others makes a bow around them."""
    (x1, y1), (x2, y2) = (start[0], start[1] + HEIGHT), end
    bow = COLUMN if y2 - y1 > ROW else 0
    bend = (y1 + y2) / 2
    curve = f"M{x1:.0f} {y1:.0f} C{x1 + bow:.0f} {bend:.0f} {x2 + bow:.0f} {bend:.0f}"
    return f'<path d="{curve} {x2:.0f} {y2:.0f}" {LINE}/>'


def _box(value: Value, x: float, y: float) -> str:
    origin = value.origin
    words = " ".join(word for word in (str(value.type), origin.path, origin.location) if word)
    name = type(value.op).__name__
    fill, stroke = COLOURS[_kind(value)]
    return (
        f'<g><title>{escape(words)}</title><rect x="{x - WIDTH / 2:.0f}" y="{y:.0f}" rx="4"'
        f' width="{WIDTH}" height="{HEIGHT}" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x:.0f}" y="{y + 14:.0f}" text-anchor="middle">{name}</text></g>'
    )


def _kind(value: Value) -> str:
    match value.op:
        case Input():
            return "input"
        case Fused():
            return "fused"
        case _:
            return "op"
