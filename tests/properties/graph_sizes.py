"""Graphs that are small enough to be run."""

from math import prod

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops.type_rules import concrete_shape

MOST_NUMBERS = 200_000
"""A graph with more numbers is elaborated and not run."""


def is_small(graph: Graph) -> bool:
    """True if a graph of sizes that are numbers is to be run."""
    return sum(prod(concrete_shape(value.type.shape)) for value in graph.values) <= MOST_NUMBERS
