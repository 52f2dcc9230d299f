"""Arithmetic on axes, done in Python for the attributes of a graph, and asserted in egglog."""

from collections.abc import Iterable, Iterator
from math import prod

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Broadcast, Sum
from meganeura_dsl.ir.ops.primitive.broadcast import others
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.transforms.egraph.encoding.schema import real, vector

RANKS = range(1, 6)
"""The ranks of tensors that are cut in halves or parts."""


def geometry(values: Iterable[Value]) -> list[str]:
    """The facts that rules on sums and copies read, each once."""
    broadcasts = {value.op: value for value in values if isinstance(value.op, Broadcast)}
    sums = [value for value in values if isinstance(value.op, Sum)]
    facts = (fact for value in (*broadcasts.values(), *sums) for fact in _facts(value))
    return list(dict.fromkeys(facts))


def constants() -> Iterator[str]:
    """Yields the facts of every graph."""
    for rank in RANKS:
        yield f"(corner {rank} {vector((0,) * rank)} {vector((1,) * rank)})"
    for rank in range(2, 5):
        yield f"(swap {vector((*range(rank - 2), rank - 1, rank - 2))} {rank})"
    yield "(outputs true 0)"
    yield "(outputs false 1)"


def _facts(value: Value) -> Iterator[str]:
    match value.op:
        case Broadcast() as op:
            shape = concrete_shape(op.shape)
            new = others(op.axes, len(shape))
            count = real(float(prod(shape[axis] for axis in new)))
            yield f"(copies {vector(shape)} {vector(op.axes)} {vector(new)} {count})"
        case Sum() as outer if isinstance(value.operands[0].op, Sum):
            inner = value.operands[0].op.axes
            rank = value.operands[0].operands[0].type.rank
            left = others(inner, rank)
            both = tuple(sorted((*inner, *(left[axis] for axis in outer.axes))))
            yield f"(nested {vector(inner)} {vector(outer.axes)} {vector(both)})"
        case _:
            return
