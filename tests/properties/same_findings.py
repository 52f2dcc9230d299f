"""Compares what two versions of the compiler say of one program."""

from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import cast

from meganeura_dsl.ir.graph import Body, Graph, Op
from meganeura_dsl.ir.objectives import Moved
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.text import parse_graph

Roots = tuple[tuple[str, str, int], ...]
"""Each output and update by name, and the number of its expression."""


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Returns the names of the findings that differ; `graphs` only if an expression differs."""
    names = [*old, *(name for name in new if name not in old)]
    found = [name for name in names if old.get(name) != new.get(name)]
    if "graphs" in found and not reworded_graphs(old, new):
        return found
    return [name for name in found if name != "graphs"]


def reworded_graphs(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Returns the graphs that differ in text alone; none if some differ in an expression."""
    before, after = (cast("dict[str, str]", each.get("graphs", {})) for each in (old, new))
    if before.keys() != after.keys():
        return []
    differing = [name for name, text in before.items() if text != after[name]]
    are_same = all(same_expression(before[name], after[name]) for name in differing)
    return differing if are_same else []


def same_expression(first: str, second: str) -> bool:
    """Returns whether all outputs and updates of two graphs in text are the same expressions."""
    if not all(text.startswith(("%", "body")) for text in (first, second)):
        return False  # the report of a refusal
    numbers: dict[Hashable, int] = {}
    ops = [*OPS, Moved]
    return _roots(parse_graph(first, ops), numbers) == _roots(parse_graph(second, ops), numbers)


def _roots(graph: Graph, numbers: dict[Hashable, int]) -> Roots:
    """Returns the roots of a graph; equal expressions have one number in `numbers`."""
    known: dict[int, int] = {}
    for value in graph.values:
        operands = tuple(known[each.id] for each in value.operands)
        key = (_op_key(value.op, numbers), operands, value.index, str(value.type))
        known[value.id] = numbers.setdefault(key, len(numbers))
    roots = (("output", graph.outputs), ("update", graph.updates))
    return tuple(
        sorted(
            (kind, name, known[each.id]) for kind, named in roots for name, each in named.items()
        )
    )


def _op_key(op: Op, numbers: dict[Hashable, int]) -> Hashable:
    """Returns what two ops have in common that compute the same of the same operands."""
    attributes = (getattr(op, each.name) for each in fields(op))
    return type(op).__name__, tuple(
        _roots(each.graph, numbers) if isinstance(each, Body) else repr(each) for each in attributes
    )
