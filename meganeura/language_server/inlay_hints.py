"""Inlay hints: the type of each name behind it, and of each stage of a pipe behind the stage."""

from collections.abc import Mapping, Sequence

from lsprotocol.types import InlayHint, InlayHintKind, Range

from meganeura.language_server.analysis import Analysis
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

_Values = Mapping[tuple[int, int], Binding]


def inlay_hints(analysis: Analysis, shown: Range | None = None) -> list[InlayHint]:
    """The hints of the lines that are shown, or of all.

    A stage has none that keeps the type which a stage behind it on its line says too, nor has a
    name that is bound to a pipe where its last stage says the same.
    """
    found: dict[tuple[int, int], list[Binding]] = {}
    for each in analysis.result.values:
        found.setdefault((each.span.start, each.span.end), []).append(each)
    values = {span: last for span, (*_, last) in found.items()}
    nodes = [node for each in analysis.declarations for node in walk(each)]
    stages = {node.layer.span.start: node.layer for node in nodes if isinstance(node, ast.Pipe)}
    said_elsewhere = _said_by_stage(nodes, values) | _said_behind(nodes, values)
    hints: list[InlayHint] = []
    for (start, end), bound in sorted(found.items()):
        if start in said_elsewhere:
            continue
        position = analysis.positions.position(end)
        if shown is not None and not shown.start.line <= position.line <= shown.end.line:
            continue
        is_stage = start in stages and stages[start].span.end == end
        text = _types(bound)
        hints.append(
            InlayHint(
                position,
                text if is_stage else f": {text}",
                InlayHintKind.Type,
                padding_left=is_stage,
            )
        )
    return hints


def _types(values: Sequence[Binding]) -> str:
    """Returns the type of a value; of several results, the name and the type of each."""
    types = [str(each.type).removeprefix("f32") for each in values]
    if len(values) == 1:
        return types[0]
    names = (each.name.rpartition(".")[2] for each in values)
    return ", ".join(f"{name}: {of}" for name, of in zip(names, types, strict=True))


def _said_by_stage(nodes: Sequence[ast.Node], values: _Values) -> set[int]:
    """Returns the starts of names whose type the last stage of a pipe shows."""
    found: set[int] = set()
    for node in nodes:
        match node:
            case ast.Bind(targets=(target,), value=ast.Pipe(layer=layer)):
                name, stage = _at(target, values), _at(layer, values)
                if name is not None and stage is not None and name.type == stage.type:
                    found.add(target.span.start)
            case _:
                pass
    return found


def _said_behind(nodes: Sequence[ast.Node], values: _Values) -> set[int]:
    """Returns the starts of stages whose next one on the same line has the same type."""
    found: set[int] = set()
    for node in nodes:
        match node:
            case ast.Pipe(source=ast.Pipe(layer=earlier), layer=later):
                one, other = _at(earlier, values), _at(later, values)
                is_same = one is not None and other is not None and one.type == other.type
                if is_same and earlier.span.line == later.span.line:
                    found.add(earlier.span.start)
            case _:
                pass
    return found


def _at(node: ast.Node, values: _Values) -> Binding | None:
    return values.get((node.span.start, node.span.end))
