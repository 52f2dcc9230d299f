"""Where a graph has kinks: the choices it makes between smooth pieces, as values of the graph.

Two evaluations that choose alike lie on one piece, if the steps between them are small.
"""

from collections.abc import Iterable

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import (
    Abs,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Floor,
    Maximum,
    MaxPool,
    Minimum,
    ReduceMax,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full


def kink_values(build: Builder, values: Iterable[Value]) -> list[Value]:
    """For each value with a kink, made in `build`, which of its pieces was chosen."""
    return [chosen for value in values if (chosen := _decision(build, value)) is not None]


def _decision(build: Builder, value: Value) -> Value | None:
    match value.op:
        case Compare() | Floor() | ArgMax():
            return value
        case Cast() if not value.type.dtype.is_float and value.operands[0].type.dtype.is_float:
            return value
        case Abs():
            (x,) = value.operands
            return build.add(Compare("gt"), x, full(build, x.type, 0))
        case Maximum() | Minimum():
            return build.add(Compare("gt"), *value.operands)
        case ReduceMax(axes=axes):
            (x,) = value.operands
            kept = tuple(axis for axis in range(x.type.rank) if axis not in axes)
            return build.add(Compare("eq"), x, build.add(Broadcast(x.type.shape, kept), value))
        case MaxPool():
            _, indices = build.results_of(value)
            return indices
        case _:
            return None
