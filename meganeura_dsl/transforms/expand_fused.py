"""Fused ops back to primitives, for a device that has no kernel for them."""

from collections.abc import Collection

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value, rebuild
from meganeura_dsl.ir.ops.fused.base import Fused


def expand_fused(graph: Graph, keep: Collection[type[Op]] = ()) -> Graph:
    """The graph with each fused op not in `keep` expanded; what they share is one value."""
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if isinstance(op, Fused) and type(op) not in keep:
            return op.expand_all(build, operands)[value.index]
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)
