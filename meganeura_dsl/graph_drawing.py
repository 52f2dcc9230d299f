"""The layers of a model as a drawing: blocks within blocks, and edges.

`graphviz` gives it in the language of Graphviz, `drawing_data` as data for a page that lays it out.

A layer that holds others is a frame. Equal layers in a row are drawn once, with their number. An
edge is a value that one layer takes of another, with its type. Where values of several layers come
together outside of a layer, as in a residual, the op that joins them has a node.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Gather, Input
from meganeura_dsl.summary import Layer, Summary

Measure = Literal["weights", "flops", "memory"]
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
BEGIN = "digraph meganeura {"
"""The first line of a drawing."""
HUE = 0.58
"""The hue of all fills; a layer with a larger share of the model is darker."""


@dataclass
class _Edges:
    """The nodes that are no layers, and the edges, in the order of the graph."""

    joins: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """The name of the op of each, and the layer it is in."""
    edges: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The type of the value of each, by source and target."""
    lines: dict[str, str] = field(default_factory=dict[str, str])
    """The place in the program of each node."""


def graphviz(
    found: Summary, graph: Graph, measure: Measure = "weights", depth: int | None = None
) -> str:
    """Returns the text of a drawing of a model; `depth` is how deep layers are opened.

    `graph` is that of the model, with the sizes that are to stand at the edges.
    """
    drawn = _edges(found.root, graph, depth)
    whole = _measured(found.root, measure)
    lines = [
        BEGIN,
        "  compound=true; rankdir=TB; fontname=sans;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=sans, fontsize=11];',
        "  edge [fontname=sans, fontsize=9, color=gray40];",
        f"  label={_quoted(f'{found.root.kind}: {found.root.weights:,} weights')}; labelloc=t;",
    ]
    for name, value in _inputs(graph):
        label = _quoted(f"{name}\n{value.type}")
        lines.append(f"  {_quoted(name)} [shape=ellipse, label={label}];")
    for layer in found.root.inside:
        lines += _nodes(layer, drawn, measure, whole, depth, 1)
    lines += _joins(drawn, "", 1)
    for number, (name, value) in enumerate(graph.outputs.items()):
        label = _quoted(f"{name}\n{value.type}")
        lines.append(f"  {_quoted(f'output {number}')} [shape=ellipse, label={label}];")
    lines += [
        f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(type_)}];"
        for (source, target), type_ in drawn.edges.items()
    ]
    return "\n".join([*lines, "}", ""])


def drawing_data(found: Summary, graph: Graph) -> dict[str, Any]:
    """Returns the drawing of a model with all layers open, in types of JSON.

    `layers` are nested by `inside`, `joins` are ops outside of a layer with the layer that they are
    in. Ends of `edges` are paths of innermost layers, names of joins, inputs or outputs.
    """
    drawn = _edges(found.root, graph, None)
    ends = [(name, name, value) for name, value in _inputs(graph)]
    ends += [
        (f"output {at}", str(name), value) for at, (name, value) in enumerate(graph.outputs.items())
    ]
    return {
        "kind": found.root.kind,
        "layers": [_layer_data(each, drawn) for each in found.root.inside],
        "joins": [
            {"id": node, "name": name, "layer": layer, "location": drawn.lines[node]}
            for node, (name, layer) in drawn.joins.items()
        ],
        "ends": [{"id": node, "name": name, "type": str(value.type)} for node, name, value in ends],
        "edges": [
            {"source": source, "target": target, "type": type_}
            for (source, target), type_ in drawn.edges.items()
        ],
    }


def _layer_data(layer: Layer, drawn: _Edges) -> dict[str, Any]:
    return {
        "id": layer.path,
        "name": layer.paths or layer.path,
        "kind": layer.kind,
        "times": layer.times,
        "weights": layer.weights,
        "flops": layer.flops,
        "memory": layer.memory,
        "location": drawn.lines.get(layer.path, ""),
        "inside": [_layer_data(each, drawn) for each in layer.inside],
    }


def _quoted(text: str) -> str:
    """Returns a text as an identifier of Graphviz."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _inputs(graph: Graph) -> Iterator[tuple[str, Value]]:
    for value in graph.values:
        if isinstance(value.op, Input):
            yield value.op.name, value


def _is_opened(layer: Layer, level: int, depth: int | None) -> bool:
    return bool(layer.inside) and (depth is None or level < depth)


def _nodes(
    layer: Layer, drawn: _Edges, measure: Measure, whole: int, depth: int | None, level: int
) -> Iterator[str]:
    """Yields the lines of a layer: a frame with those inside, or a node."""
    pad, times = "  " * level, f"{layer.times} x " if layer.times > 1 else ""
    weights = f"{times}{layer.weights:,} weights" if layer.weights else times.removesuffix(" x ")
    words = [layer.paths or layer.path, layer.kind, weights]
    tooltip = _quoted(drawn.lines.get(layer.path, layer.path))
    label = _quoted("\n".join(each for each in words if each))
    if not _is_opened(layer, level, depth):
        share = _measured(layer, measure) / max(1, whole)
        fill = f'"{HUE} {min(1.0, share) * 0.6:.3f} 1.000"'
        yield f"{pad}{_quoted(layer.path)} [label={label}, tooltip={tooltip}, fillcolor={fill}];"
        return
    yield f"{pad}subgraph {_quoted(f'cluster {layer.path}')} {{"
    yield f"{pad}  label={label}; tooltip={tooltip}; style=rounded; color=gray60; labeljust=l;"
    for each in layer.inside:
        yield from _nodes(each, drawn, measure, whole, depth, level + 1)
    yield from _joins(drawn, layer.path, level + 1)
    yield f"{pad}}}"


def _joins(drawn: _Edges, layer: str, level: int) -> Iterator[str]:
    for node, (name, inside) in drawn.joins.items():
        if inside == layer:
            tooltip = _quoted(drawn.lines[node])
            yield (
                f"{'  ' * level}{_quoted(node)} [shape=circle, label={_quoted(name)}, "
                f"tooltip={tooltip}];"
            )


def _measured(layer: Layer, measure: Measure) -> int:
    match measure:
        case "weights":
            return layer.weights
        case "flops":
            return layer.flops or 0
        case "memory":
            return layer.memory or 0
        case _:
            assert_never(measure)


def _edges(root: Layer, graph: Graph, depth: int | None) -> _Edges:
    drawn, counts = _Edges(), defaultdict[tuple[str, str], int](int)
    # By value: the nodes that it is made by, each with the type of what it gives.
    sources: dict[int, dict[str, str]] = {}
    for value in graph.values:
        if isinstance(value.op, Input):
            sources[value.id] = {value.op.name: str(value.type)}
            continue
        taken: dict[str, str] = {}
        for operand in value.operands:
            taken |= sources.get(operand.id, {})
        if not taken and not isinstance(value.op, Gather):
            continue  # made of weights alone, and no row of a table of positions
        layer, is_node, is_drawn = _place(root, value.origin.path, depth)
        if is_node:
            node = layer
        elif len(taken) <= 1:
            sources[value.id] = dict.fromkeys(taken, str(value.type))
            continue
        else:
            name = type(value.op).__name__.lower()
            counts[value.origin.path, name] += 1
            node = f"{layer}#{name}{counts[value.origin.path, name]}"
            if is_drawn:
                drawn.joins[node] = name, layer
        drawn.lines.setdefault(node, value.origin.location)
        sources[value.id] = {node: str(value.type)}
        for source, type_ in taken.items() if is_drawn else ():
            if source != node:
                drawn.edges.setdefault((source, node), type_)
    for number, value in enumerate(graph.outputs.values()):
        for source, type_ in sources.get(value.id, {}).items():
            drawn.edges[source, f"output {number}"] = type_
    return drawn


def _place(root: Layer, path: str, depth: int | None) -> tuple[str, bool, bool]:
    """Returns the drawn layer of a path, whether it is a node, and whether it is drawn itself.

    Of equal layers in a row only the first is drawn, and stands for the others.
    """
    layer, level, is_drawn = root, 0, True
    while _is_opened(layer, level, depth):
        found = None
        for each in layer.inside:
            found = _within(each, path)
            if found is not None:
                layer, level = each, level + 1
                path, is_first = found
                is_drawn = is_drawn and is_first
                break
        if found is None:
            return layer.path, False, is_drawn
    return layer.path, layer is not root, is_drawn


def _within(layer: Layer, path: str) -> tuple[str, bool] | None:
    """Returns a path below the first of some equal layers, and True if it is below that itself."""
    parts = _RANGE.split(layer.paths or layer.path)  # text, first, last, text
    form = re.escape(parts[0]) + (rf"(\d+){re.escape(parts[3])}" if len(parts) > 1 else "")
    match = re.match(rf"{form}(?=\.|$)", path)
    if match is None:
        return None
    if len(parts) > 1 and not int(parts[1]) <= int(match[1]) <= int(parts[2]):
        return None
    return layer.path + path[match.end() :], match[0] == layer.path
