"""Norms over rows of [n, s, d] as norms over [n s, d], if s is no multiple of a tile's rows.

XLA tiles every axis by a power of two: a tile of [16, 197, d] has one row of each of 16 examples,
which lie far from each other, and one of [3152, d] has neighbouring rows.
"""

from collections.abc import Iterator
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Broadcast, Reshape, Sum
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_runtime.backends.xla.config.measured_choices import FLATTEN_NORM_ROWS

Shape = tuple[int, ...]


def flatten_norm_rows(graph: Graph) -> Graph:
    """Returns the graph with the ops of such norms on values with one axis for all rows."""
    found = frozenset(_wholes(graph))
    # A value with one number for each row of another shape has one axis for them already.
    wholes = found - {whole[:-1] for whole in found}
    if not wholes:
        return graph
    rows = frozenset(whole[:-1] for whole in wholes)
    build = Builder()
    flat: dict[int, Value] = {}
    """The flattened form of a value, by its id."""

    def flatten(value: Value) -> Value:
        if value.id not in flat:
            shape = concrete_shape(value.type.shape)
            one = (prod(shape[:-1]), shape[-1]) if shape in wholes else (prod(shape),)
            flat[value.id] = build.add(Reshape(one), value)
        return flat[value.id]

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op, shape = value.op, concrete_shape(value.type.shape)
        if Trait.ELEMENTWISE in op.traits and (
            shape in wholes or (shape in rows and any(each.id in flat for each in operands))
        ):
            found = build.add(op, *map(flatten, operands))
        elif isinstance(op, Sum) and _is_of_rows(op, operands[0]) and _shape(operands[0]) in wholes:
            found = build.add(Sum((1,)), flatten(operands[0]))
        elif isinstance(op, Broadcast) and shape in wholes and op.axes == (len(shape) - 1,):
            found = build.add(Broadcast((prod(shape[:-1]), shape[-1]), (1,)), *operands)
        elif isinstance(op, Broadcast) and shape in wholes and op.axes == _all_but_last(shape):
            found = build.add(Broadcast((prod(shape[:-1]), shape[-1]), (0,)), flatten(operands[0]))
        else:
            return build.reapply(value, *operands)
        parted = build.add(Reshape(shape), found)
        flat[parted.id] = found
        return parted

    return rebuild(graph, build, change)


def _wholes(graph: Graph) -> Iterator[Shape]:
    """Yields the shapes whose rows are to be flattened."""
    for value in graph.values:
        if isinstance(value.op, Sum) and _is_of_rows(value.op, value.operands[0]):
            *batch, rows, _ = shape = _shape(value.operands[0])
            if batch and rows % FLATTEN_NORM_ROWS.value:
                yield shape


def _is_of_rows(sum_: Sum, x: Value) -> bool:
    return sum_.axes == (x.type.rank - 1,) and x.type.rank > 1


def _all_but_last(shape: Shape) -> tuple[int, ...]:
    return tuple(range(len(shape) - 1))


def _shape(value: Value) -> Shape:
    return concrete_shape(value.type.shape)
