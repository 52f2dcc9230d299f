"""Kinks of a graph: the choices between smooth pieces, as values of the graph.

Two evaluations with the same choices lie on one piece, if the steps between them are small.
"""

from collections.abc import Iterable

from meganeura_dsl.ir.graph import Builder, Value


def kink_values(build: Builder, values: Iterable[Value]) -> list[Value]:
    """Adds to `build` the branch index of each value with a kink, and returns them."""
    pieces = (value.op.branch_index(build, value) for value in values)
    return [chosen for chosen in pieces if chosen is not None]
