"""Graphs as certificates have them: JSON of nodes `[op, operands, attributes, dtype, shape]`.

Leaves, and constants that egglog cannot tell apart, are `Leaf` nodes with their text as the only
attribute. A body of a loop is known by the SHA-256 of its own record.
"""

# Values of rules are numbers, texts or tuples of them: patterns tell them apart.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from meganeura_verify.runs import digest

from meganeura_dsl.ir.graph import Body, Graph, Leaf, Op, Value
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_op
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name, constructors, is_exact

Json = Any
LEAF = "Leaf"


def graph_record(graph: Graph) -> Json:
    """A graph whose sizes are numbers: nodes, the numbers of parameters, outputs and updates."""
    numbers = {value.id: number for number, value in enumerate(graph.values)}
    return {
        "nodes": [node_record(each, lambda of: numbers[of.id]) for each in graph.values],
        "parameters": [n for n, each in enumerate(graph.values) if isinstance(each.op, Parameter)],
        "outputs": {name: numbers[value.id] for name, value in roots(graph).items()},
    }


def inference_record(run: Graph, load: Graph) -> Json:
    """The graph that runs with what is computed once, when its parameters are loaded, put in."""
    first = graph_record(load)
    nodes, derived = first["nodes"], {name: first["outputs"][name] for name in first["outputs"]}
    leaves = {json.dumps(node): number for number, node in enumerate(nodes) if node[0] == LEAF}
    numbers: dict[int, int] = {}
    for value in run.values:
        stored = derived.get(output_name(getattr(value.op, "name", "")))
        record = node_record(value, lambda of: numbers[of.id])
        number = stored if record[0] == LEAF and stored is not None else None
        if number is None:
            number = leaves.get(json.dumps(record)) if record[0] == LEAF else None
        if number is None:
            number = len(nodes)
            nodes.append(record)
        numbers[value.id] = number
    outputs = {name: numbers[value.id] for name, value in roots(run).items()}
    return {"nodes": nodes, "parameters": [], "outputs": outputs}


def roots(graph: Graph) -> Mapping[str, Value]:
    """The outputs and the updates of a graph by names that tell them apart."""
    outputs = {output_name(name): value for name, value in graph.outputs.items()}
    return {**outputs, **{f"update {name}": value for name, value in graph.updates.items()}}


def output_name(name: str) -> str:
    """The name of an output among the roots of a graph."""
    return f"output {name}"


def node_record(value: Value, number_of: Callable[[Value], int]) -> Json:
    """A value as a node whose operands have these numbers."""
    operands = [number_of(operand) for operand in value.operands]
    name, attributes = written(value.op, len(operands), value.index)
    return [
        name,
        operands,
        [*attributes],
        value.type.dtype.value,
        [*concrete_shape(value.type.shape)],
    ]


@cache
def written(op: Op, count: int, index: int) -> tuple[str, tuple[Json, ...]]:
    """The name of an op with so many operands, and its attributes, as rules know them."""
    if isinstance(op, Leaf) or not is_exact(op):
        return LEAF, (format_op(op),)
    name = type(op).__name__ if op.operands.variadic else constructor_name(type(op), count)
    sorts = dict(constructors()[name].fields)
    attributes = [_attribute(getattr(op, each.name), sorts[each.name]) for each in fields(op)]
    return name, (*attributes, *([index] if op.multiple_results else []))


def _attribute(value: object, sort: str) -> Json:
    match value:
        case DType():
            return value.value
        case Body():
            return {"body": digest(graph_record(value.graph))}
        case tuple():
            return list(value)
        case int() | float() if sort == "f64":
            return float(value)
        case _:
            return value
