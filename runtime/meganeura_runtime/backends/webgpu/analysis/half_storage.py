"""The values that a step on matrix units stores in f16.

They are those of `narrow_storage`, and whatever only products read, as these round their factors to
f16 anyway. These stay in f32: parts of a sum, results that a transform adds up with large factors,
statistics of the rows of an attention, and what a loop reads or gives.
"""

from collections.abc import Container, Iterator

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.backends.narrow_storage import narrow_values
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    held_as,
    is_attention,
    is_contraction,
    is_loop,
    is_transform,
)
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial


def values_in_halves(graph: Graph, target: Target) -> frozenset[int]:
    """Returns the ids of the values of f32 of a lowered graph that memory holds in f16."""
    if target.limits.matrix_units is None:
        return frozenset()
    wide = {value.id for value in (*graph.roots, *_kept_wide(graph))}
    found = {*narrow_values(graph), *_read_by_products_alone(graph)}
    return frozenset(
        value.id
        for value in graph.values
        if value.id in found
        and value.id not in wide
        and value.type.dtype is DType.F32
        and not isinstance(value.op, Leaf)
    )


def type_in_memory(value: Value, halves: Container[int]) -> TensorType:
    """Returns the type of a value as it is stored, where `halves` are those in f16."""
    return value.type.with_dtype(DType.F16) if value.id in halves else value.type


def _read_by_products_alone(graph: Graph) -> Iterator[int]:
    """Yields the ids of values that only contractions and attentions read, or views for these."""
    readers: dict[int, list[Value]] = {}
    for value in graph.values:
        for operand in value.operands:
            readers.setdefault(operand.id, []).append(value)
    found: set[int] = set()
    for value in reversed(graph.values):
        reading = readers.get(value.id, [])
        if reading and all(
            is_contraction(each)
            or is_attention(each)
            or (Trait.VIEW in each.op.traits and each.id in found)
            for each in reading
        ):
            found.add(value.id)
            yield value.id


def _kept_wide(graph: Graph) -> Iterator[Value]:
    for value in graph.values:
        if isinstance(value.op, SplitKPartial):
            yield value
        if is_transform(value):
            yield from (operand for operand in value.operands if is_contraction(operand))
        if is_attention(value):
            rank = value.operands[0].type.rank
            yield from (each for each in (value, *value.operands) if each.type.rank < rank)
        if is_loop(value):
            yield value
            yield from map(held_as, value.operands)
