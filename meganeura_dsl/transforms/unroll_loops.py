"""Loop unrolling: for loops of few iterations, and as a reference to compare with."""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Concat, Constant, Reshape, Slice
from meganeura_dsl.ir.ops.primitive.loop import ITERATION, Loop
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType


def unroll_loops(graph: Graph) -> Graph:
    """The graph without loops, which have a number of iterations that is known."""
    if not any(isinstance(value.op, Loop) for value in graph.values):
        return graph
    build = Builder()
    unrolled: dict[object, tuple[Value, ...]] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if not isinstance(op, Loop):
            return build.reapply(value, *operands)
        key = value.application
        if key not in unrolled:
            unrolled[key] = _unrolled(build, op, operands)
        return unrolled[key][value.index]

    rebuilt = rebuild(graph, build, change)
    # A body may hold loops of its own.
    return unroll_loops(rebuilt)


def _unrolled(build: Builder, op: Loop, operands: Sequence[Value]) -> tuple[Value, ...]:
    starts, sources, captured = op.parts(operands)
    carries, given = tuple(starts), list[tuple[Value, ...]]()
    iterations = range(concrete(op.iterations))
    for number in reversed(iterations) if op.backward else iterations:
        slices = [
            _slice(build, each, axis, number) for each, axis in zip(sources, op.sliced, strict=True)
        ]
        leaves = dict(zip(op.names, (*carries, *slices, *captured), strict=True))
        leaves[ITERATION] = build.add(Constant(number, DType.I32))
        _, carries, found = op.instantiate(build, leaves)
        given.append(found)
    ordered = given[::-1] if op.backward else given
    stacks = (
        build.add(Concat(axis), *(_with_axis(build, found[index], axis) for found in ordered))
        for index, axis in enumerate(op.collected)
    )
    return (*carries, *stacks)


def _slice(build: Builder, source: Value, axis: int, number: int) -> Value:
    shape = source.type.shape
    starts = tuple(number if each == axis else 0 for each in range(len(shape)))
    stops = tuple(number + 1 if each == axis else size for each, size in enumerate(shape))
    part = build.add(Slice(starts, stops, (1,) * len(shape)), source)
    return build.add(Reshape(shape[:axis] + shape[axis + 1 :]), part)


def _with_axis(build: Builder, value: Value, axis: int) -> Value:
    shape = value.type.shape
    return build.add(Reshape((*shape[:axis], 1, *shape[axis:])), value)
