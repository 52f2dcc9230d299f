"""Passes on the bodies of loops."""

from collections.abc import Callable
from dataclasses import replace

from meganeura_dsl.ir.graph import Body, Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops.primitive.loop import Loop


def with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with the body of each loop changed, equal ones once.

    A changed body has the same leaves and outputs, by name.
    """
    if not any(value.op.bodies for value in graph.values):
        return graph
    known: dict[Body, Body] = {}
    build = Builder()

    def replaced(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if not isinstance(op, Loop):
            return build.reapply(value, *operands)
        if op.body not in known:
            known[op.body] = Body(change(op.body.graph))
        return build.add_all(replace(op, body=known[op.body]), *operands)[value.index]

    return rebuild(graph, build, replaced)
