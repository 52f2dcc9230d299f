"""Gradients of several uses of a parameter, added before they are summed over devices.

A table that reads tokens and writes logits gets one gradient from each use, both of them sums over
the examples. XLA's partitioner sums each over the devices where it is computed, so both would be
communicated. Here each device adds the terms of its own examples, and the devices communicate once.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
from jax import lax
from jax.sharding import PartitionSpec

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    ConvWeightGradient,
    Input,
    MatMul,
    ScatterAdd,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.xla.device.placement import AXIS, Placement, SeveralDevices

MATRIX = 2
"""Rank of a matrix."""

Parts = tuple[Value, ...]
"""Terms of a value, each a sum over the examples."""


@dataclass(frozen=True)
class PartialSums:
    """Values of a graph that add several sums over the examples."""

    placement: SeveralDevices
    parts: Mapping[int, Parts]
    """Terms by the id of a value."""
    inner: frozenset[int]
    """Terms, and sums of some of them; nothing else reads these."""

    @staticmethod
    def of(graph: Graph, placement: Placement) -> "PartialSums | None":
        """Returns the sums of a graph; `None` if there are none, as on one device."""
        if not isinstance(placement, SeveralDevices):
            return None
        found = _parts(graph, _of_examples(graph, placement))
        inner: set[int] = set()
        for value in graph.values:
            if value.id in found and isinstance(value.op, Add):
                inner.update(operand.id for operand in value.operands)
        sums = {
            number: parts
            for number, parts in found.items()
            if len(parts) > 1 and number not in inner
        }
        return PartialSums(placement, sums, frozenset(inner)) if sums else None

    def total(
        self,
        value: Value,
        operands: Sequence[Sequence[jax.Array]],
        part: Callable[[Value, Sequence[jax.Array]], jax.Array],
    ) -> jax.Array:
        """Returns a sum from the operands of its terms; `part` computes a term for some examples.

        It lies where a parameter of its type lies, as gradients are read beside these.
        """
        where, axis = (
            self.placement.persistent("", value.type),
            self.placement.split_axis(value.type),
        )

        def on_a_device(operands: Sequence[Sequence[jax.Array]]) -> jax.Array:
            first, *others = map(part, self.parts[value.id], operands)
            own = sum(others, start=first)
            if axis is None:
                return lax.psum(own, AXIS)
            return lax.psum_scatter(own, AXIS, scatter_dimension=axis, tiled=True)

        return jax.shard_map(
            on_a_device,
            mesh=where.mesh,
            in_specs=PartitionSpec(AXIS),
            out_specs=where.spec,
            check_vma=False,
        )(operands)


def _parts(graph: Graph, of_examples: frozenset[int]) -> Mapping[int, Parts]:
    """Returns the terms of each sum over the examples, and of sums of such with one reader."""
    readers = Counter(operand.id for value in graph.values for operand in value.operands)
    readers.update(root.id for root in graph.roots)
    found: dict[int, Parts] = {}
    for value in graph.values:
        if isinstance(value.op, Add):
            terms = [found.get(each.id, ()) for each in value.operands if readers[each.id] == 1]
            if len(terms) == len(value.operands) and all(terms):
                found[value.id] = tuple(part for term in terms for part in term)
        elif _sums_rows(value) and all(each.id in of_examples for each in value.operands):
            found[value.id] = (value,)
    return found


def _of_examples(graph: Graph, placement: SeveralDevices) -> frozenset[int]:
    """Returns the ids of values of which each device has the rows of its own examples."""
    found: set[int] = set()
    for value in graph.values:
        shape = concrete_shape(value.type.shape)
        match value.op:
            case Input(name):
                is_shared = placement.fed(name, value.type) != placement.replicated
            case Transpose((0, *_)):
                is_shared = value.operands[0].id in found
            case Transpose():
                is_shared = False
            case _:
                are_shared = any(operand.id in found for operand in value.operands)
                is_shared = are_shared and not _sums_rows(value)
        if is_shared and shape and placement.divides(shape[0]):
            found.add(value.id)
    return frozenset(found)


def _sums_rows(value: Value) -> bool:
    """Returns True for a sum along the first axes of the operands."""
    match value.op:
        case MatMul(transpose_left=True, transpose_right=False):
            return value.type.rank == MATRIX
        case ScatterAdd(axis=0, batch=0) | ConvWeightGradient():
            return True
        case Sum(axes):
            return 0 in axes
        case _:
            return False
