"""Norms of rows [n, s, d] as those of n s rows, where s is no multiple of a tile's rows.

XLA divides all axes in tiles of powers of two. Of 16 x 197 rows it makes tiles of a row of each of
16 examples, which lie far from each other; of 3,152 rows tiles of rows that are neighbours: the
kernels of an inference of ViT-S, 16 images, take 0.84 ms on an H200 instead of 0.89.
"""

from collections.abc import Iterator
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Broadcast, Reshape, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait

Shape = tuple[int, ...]
TILE = 8
"""Rows of a tile."""


def with_joined_rows(graph: Graph) -> Graph:
    """The same step, where what belongs to such norms has one axis for all rows."""
    found = frozenset(_wholes(graph))
    # What has one number for each row of another shape has one axis for them already.
    wholes = found - {whole[:-1] for whole in found}
    if not wholes:
        return graph
    rows = frozenset(whole[:-1] for whole in wholes)
    build = Builder()
    joined: dict[int, Value] = {}
    """Of a value, by its id, the same elements with one axis for all rows."""

    def join(value: Value) -> Value:
        if value.id not in joined:
            shape = concrete_shape(value.type.shape)
            one = (prod(shape[:-1]), shape[-1]) if shape in wholes else (prod(shape),)
            joined[value.id] = build.add(Reshape(one), value)
        return joined[value.id]

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op, shape = value.op, concrete_shape(value.type.shape)
        if Trait.ELEMENTWISE in op.traits and (
            shape in wholes or (shape in rows and any(each.id in joined for each in operands))
        ):
            found = build.add(op, *map(join, operands))
        elif isinstance(op, Sum) and _is_of_rows(op, operands[0]) and _shape(operands[0]) in wholes:
            found = build.add(Sum((1,)), join(operands[0]))
        elif isinstance(op, Broadcast) and shape in wholes and op.axes == (len(shape) - 1,):
            found = build.add(Broadcast((prod(shape[:-1]), shape[-1]), (1,)), *operands)
        elif isinstance(op, Broadcast) and shape in wholes and op.axes == _all_but_last(shape):
            found = build.add(Broadcast((prod(shape[:-1]), shape[-1]), (0,)), join(operands[0]))
        else:
            return build.reapply(value, *operands)
        parted = build.add(Reshape(shape), found)
        joined[parted.id] = found
        return parted

    return rebuild(graph, build, change)


def _wholes(graph: Graph) -> Iterator[Shape]:
    """The shapes of what rows are summed of, if their rows are joined."""
    for value in graph.values:
        if isinstance(value.op, Sum) and _is_of_rows(value.op, value.operands[0]):
            *batch, rows, _ = shape = _shape(value.operands[0])
            if batch and rows % TILE:
                yield shape


def _is_of_rows(sum_: Sum, x: Value) -> bool:
    return sum_.axes == (x.type.rank - 1,) and x.type.rank > 1


def _all_but_last(shape: Shape) -> tuple[int, ...]:
    return tuple(range(len(shape) - 1))


def _shape(value: Value) -> Shape:
    return concrete_shape(value.type.shape)
