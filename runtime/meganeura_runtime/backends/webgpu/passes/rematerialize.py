"""Rematerialization: large values that are cheap to compute are recomputed where they are read.

A training step holds most at the end of its forward pass. The tiles of a convolution's input are
more than twice its input; the gradient of the kernel asks for them a whole pass later, when the
input is mostly there still. So they are computed a second time, in a kernel that runs anyway.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value, rebuild
from meganeura_dsl.ir.ops import StopGradient
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.webgpu.analysis.access_patterns import readers_of
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    SHARED_COST,
    costs_of,
    is_anchor,
    is_factor,
    is_transform,
    materialized_values,
)
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.memory.memory_planner import Lifetime, fullest

HELD = 8 << 20
"""Bytes held from one pass to the next from which on recomputing pays."""


def rematerialize(graph: Graph, target: Target) -> Graph:
    """The graph with what is quickly made, but fills memory when it is fullest, made after that."""
    large = [value for value in graph.values if size_in_bytes(value.type) >= HELD]
    if not large:
        return graph
    use = _use_of_memory(graph, target)
    if not use.lifetimes:
        return graph
    peak = fullest(use.lifetimes.values())
    held = [value for value in large if use.is_held(value, peak) and use.gain(value) >= HELD]
    again = {value.id for value in held if is_transform(value)}
    again |= {value.id for value in _elementwise(graph, target, held, again, peak)}
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if value.id <= peak:
            return build.reapply(value, *operands)
        pairs = zip(value.operands, operands, strict=True)
        return build.reapply(
            value, *(_recomputed(build, new) if old.id in again else new for old, new in pairs)
        )

    return rebuild(graph, build, change)


def _elementwise(
    graph: Graph, target: Target, held: Iterable[Value], again: Collection[int], peak: int
) -> Iterator[Value]:
    """Yields values held only for elementwise work, which may compute them.

    `again` are the tiles.
    """
    costs, readers = costs_of(graph, target), readers_of(graph)
    for value in held:
        others = (reader for reader in readers[value.id] if not _is_elementwise(reader))
        if (
            _is_elementwise(value)
            and costs[value.id] < SHARED_COST
            and not any(reader.id > peak or reader.id in again for reader in others)
        ):
            yield value


def _is_elementwise(value: Value) -> bool:
    return not is_anchor(value) and not is_factor(value.op)


@dataclass(frozen=True, slots=True)
class _Use:
    """The lifetime of each computed value, in ids of values, and the part that each value reads."""

    lifetimes: Mapping[int, Lifetime]
    reads: Mapping[int, frozenset[int]]

    def is_held(self, value: Value, time: int) -> bool:
        """True if a value is made before and read after."""
        own = self.lifetimes.get(value.id)
        return own is not None and own.first <= time < own.last

    def gain(self, value: Value) -> int:
        """Its bytes, less those of what it reads that would have to be held in its place."""
        own = self.lifetimes[value.id]
        read = (self.lifetimes[number] for number in self.reads[value.id])
        return own.bytes - sum(each.bytes for each in read if each.last < own.last)


def _use_of_memory(graph: Graph, target: Target) -> _Use:
    stored = materialized_values(graph, target)
    last: dict[int, int] = {}
    reads: dict[int, frozenset[int]] = {}
    seen: dict[int, frozenset[int]] = {}
    for value in graph.values:
        reads[value.id] = frozenset[int]().union(*(seen[operand.id] for operand in value.operands))
        last |= dict.fromkeys(reads[value.id], value.id)
        here = value.id in stored and not isinstance(value.op, Leaf)
        seen[value.id] = frozenset({value.id}) if here else reads[value.id]
    lifetimes = {
        value.id: Lifetime(value.id, size_in_bytes(value.type), value.id, last[value.id])
        for value in graph.values
        if value.id in last
    }
    return _Use(lifetimes, reads)


def _recomputed(build: Builder, value: Value) -> Value:
    """The same value as one of its own: of the same operands by another name."""
    with build.at(value.origin):
        again = [build.add(StopGradient(), operand) for operand in value.operands]
        return build.reapply(value, *again)
