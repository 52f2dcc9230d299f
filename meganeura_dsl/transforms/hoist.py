"""Hoisting: a graph in two, what depends on some of its inputs alone, and the rest.

The first graph runs once for many runs of the second, which keeps its results. It is loop-invariant
code motion (Allen and Cocke 1971) where the loop is in the host: the encoder of a model that writes
runs once, and so do the projections of what it gives.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value, dependencies
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.traits import Trait

HELD = "held"
"""Results are `held.0`, `held.1`, ... in the first graph, and parameters in the second."""


@dataclass(frozen=True, eq=False)
class Hoisted:
    """The graph that runs first, and the one that reads its outputs as parameters."""

    first: Graph
    rest: Graph


def hoist(graph: Graph, inputs: Collection[str]) -> Hoisted:
    """Split off what follows from some inputs and from what never changes.

    What is cheap to repeat, such as a transposition, is left to the rest. A graph that gives out or
    updates a value that follows from those inputs alone holds it, too.
    """
    early = _early(graph, inputs)
    used = [each for value in graph.values if value.id not in early for each in value.operands]
    cut = {_looked_through(value).id for value in [*used, *graph.roots] if value.id in early}
    ordered = [value for value in graph.values if value.id in cut]
    names = {value.id: f"{HELD}.{number}" for number, value in enumerate(ordered)}
    first = _part({names[value.id]: value for value in ordered}, {}, {})
    kept = [value for value in graph.values if _is_updated(value, graph)]
    return Hoisted(first, _part(graph.outputs, graph.updates, names, kept))


def _early(graph: Graph, inputs: Collection[str]) -> set[int]:
    """The values that depend on those inputs, and else only on what stays as it is."""
    fixed: set[int] = set()
    early: set[int] = set()
    for value in graph.values:
        op = value.op
        if isinstance(op, Input) and op.name in inputs:
            early.add(value.id)
        elif isinstance(op, Parameter):
            fixed |= set() if op.name in graph.updates or op.kind == "cache" else {value.id}
        elif not isinstance(op, Leaf) and all(
            each.id in early or each.id in fixed for each in value.operands
        ):
            is_early = any(each.id in early for each in value.operands)
            (early if is_early else fixed).add(value.id)
    return early


def _looked_through(value: Value) -> Value:
    """Returns the operand of a view, which is early if the view is."""
    while Trait.VIEW in value.op.traits:
        value = value.operands[0]
    return value


def _is_updated(value: Value, graph: Graph) -> bool:
    return isinstance(value.op, Parameter) and value.op.name in graph.updates


def _part(
    outputs: Mapping[str, Value],
    updates: Mapping[str, Value],
    held: Mapping[int, str],
    leaves: Sequence[Value] = (),
) -> Graph:
    """The graph of some values and leaves, where those that are held are parameters."""
    build = Builder()
    rebuilt: dict[int, Value] = {}
    for value in dependencies((*outputs.values(), *updates.values(), *leaves), held):
        with build.at(value.origin):
            if value.id in held:
                of = value.type
                leaf = Parameter(held[value.id], of.dtype, of.shape, "frozen")
                rebuilt[value.id] = build.add(leaf)
            else:
                operands = [rebuilt[each.id] for each in value.operands]
                rebuilt[value.id] = build.reapply(value, *operands)
    return build.graph(
        {name: rebuilt[value.id] for name, value in outputs.items()},
        {name: rebuilt[value.id] for name, value in updates.items()},
    )
