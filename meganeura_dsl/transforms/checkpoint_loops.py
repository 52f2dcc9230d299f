"""Gradient checkpointing of loops: some iterations' carries are stored, the others recomputed.

A loop of n iterations becomes an outer loop over segments of k iterations, which an inner loop
runs. The gradient of the outer loop stores what each segment begins with, and runs the inner loop
again to store what one segment needs: n / k carries and k iterations instead of n iterations, for
one more forward pass. The least of it grows with the square root of n (Chen et al. 2016, "Training
Deep Nets with Sublinear Memory Cost"). The iterations that n leaves over are a loop of their own
behind.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.ir.graph import Application, Body, Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Add, Concat, Constant, Input, Mul, Reshape, Slice
from meganeura_dsl.ir.ops.primitive.loop import CAPTURED, CARRY, COLLECTED, ITERATION, Loop, stack
from meganeura_dsl.ir.ops.primitive.loop_gradient import SAVED
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType, TensorType, size_in_bytes

FEWEST = 4
"""The iterations of a loop below which segments save nothing."""
NEAR = 1.25
"""The factor by which a segment may exceed the least size if no iterations are left over then."""

Values = Sequence[Value]


def stored_by_loops(graph: Graph) -> list[int]:
    """The bytes that each loop of two segments or more stores for its gradient, bodies too."""
    found: list[int] = []
    loops = {each.application: each.op for each in graph.values if isinstance(each.op, Loop)}
    for op in loops.values():
        found += stored_by_loops(op.body.graph)
        found += [_stored(op)] if concrete(op.iterations) >= FEWEST else []
    return found


def checkpoint_loops(graph: Graph, above: int, among: Collection[int]) -> Graph:
    """The same graph, where loops that store more bytes run in segments.

    Of the loops of the graph those whose results are `among` some values, by id.
    """
    if not any(each > above for each in stored_by_loops(graph)):
        return graph
    build = Builder()
    chosen = {value.application for value in graph.values if value.id in among}
    rebuilt: dict[Application, tuple[Value, ...]] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if not isinstance(op, Loop) or value.application not in chosen:
            return build.reapply(value, *operands)
        if value.application not in rebuilt:
            rebuilt[value.application] = _checkpointed(build, op, operands, above)
        return rebuilt[value.application][value.index]

    return rebuild(graph, build, change)


def _checkpointed(
    build: Builder, op: Loop, operands: tuple[Value, ...], above: int
) -> tuple[Value, ...]:
    """The results of a loop; loops of its body are segmented too, by what they store."""
    graph = op.body.graph
    within = checkpoint_loops(graph, above, {value.id for value in graph.values})
    inner = replace(op, body=Body(within))
    if concrete(op.iterations) < FEWEST or _stored(op) <= above:
        return build.add_all(inner, *operands)
    return _Segments(build, inner, segment_length(op)).results(operands)


# --- how long a segment is -----------------------------------------------------------------------


def segment_length(op: Loop) -> int:
    """The iterations of a segment with which least is stored, by preference without a rest."""
    iterations, start, each = concrete(op.iterations), _carried(op), _of_an_iteration(op)
    stored = {k: iterations // k * start + k * each for k in range(2, iterations // 2 + 1)}
    least = min(stored.values())
    near = [k for k in stored if iterations % k == 0 and stored[k] <= NEAR * least]
    return min(near or stored, key=stored.__getitem__)


def _stored(op: Loop) -> int:
    """About the bytes that the gradient of a loop reads from memory."""
    return concrete(op.iterations) * _of_an_iteration(op)


def _of_an_iteration(op: Loop) -> int:
    """The bytes that the gradient stores of an iteration: its carries, and results of products."""
    saved = [value for value in op.body.graph.values if not value.op.traits.isdisjoint(SAVED)]
    return _carried(op) + sum(size_in_bytes(value.type) for value in saved)


def _carried(op: Loop) -> int:
    return max(1, sum(size_in_bytes(value.type) for value in op.next))


# --- the loops -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segments:
    """Makes the loop over segments of `length` iterations, and that of the iterations left over."""

    build: Builder
    op: Loop
    length: int

    def results(self, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Returns the results of the loop for its operands; the rest is last in all slices."""
        op, iterations = self.op, concrete(self.op.iterations)
        carries, sources, captured = op.parts(operands)
        whole = iterations - iterations % self.length
        spans = [(0, whole), (whole, iterations)] if whole < iterations else [(0, iterations)]
        given: list[tuple[Value, ...]] = []
        for first, last in reversed(spans) if op.backward else spans:
            slices = [
                self._part(each, axis, first, last)
                for each, axis in zip(sources, op.sliced, strict=True)
            ]
            make = self._segmented if first == 0 else self._rest
            found = make(carries, slices, captured, last - first)
            carries, stacks = found[: op.carried], found[op.carried :]
            given.append(stacks)
        ordered = given[::-1] if op.backward else given
        joined = [
            pieces[0] if len(pieces) == 1 else self.build.add(Concat(axis), *pieces)
            for *pieces, axis in zip(*ordered, op.collected, strict=True)
        ]
        return (*carries, *joined)

    def _part(self, source: Value, axis: int, first: int, last: int) -> Value:
        shape = source.type.shape
        if last - first == shape[axis]:
            return source
        starts = tuple(first if each == axis else 0 for each in range(len(shape)))
        stops = tuple(last if each == axis else size for each, size in enumerate(shape))
        return self.build.add(Slice(starts, stops, (1,) * len(shape)), source)

    def _rest(
        self, carries: Values, slices: Values, captured: Values, count: int
    ) -> tuple[Value, ...]:
        op = self.op
        build, leaves = self._leaves(_types(op))
        base = build.add(Constant(concrete(op.iterations) - count, DType.I32))
        rest = replace(op, body=_shifted(op, build, leaves, base), iterations=count)
        return self.build.add_all(rest, *carries, *slices, *captured)

    def _segmented(
        self, carries: Values, slices: Values, captured: Values, count: int
    ) -> tuple[Value, ...]:
        op, segments = self.op, count // self.length
        split = [
            self._reshaped(each, axis, axis + 1, (segments, self.length))
            for each, axis in zip(slices, op.sliced, strict=True)
        ]
        outer = replace(op, body=self._segment(), iterations=segments)
        found = self.build.add_all(outer, *carries, *split, *captured)
        stacks = [
            self._reshaped(each, axis, axis + 2, (count,))
            for each, axis in zip(found[op.carried :], op.collected, strict=True)
        ]
        return (*found[: op.carried], *stacks)

    def _reshaped(self, value: Value, start: int, stop: int, sizes: tuple[int, ...]) -> Value:
        shape = value.type.shape
        return self.build.add(Reshape((*shape[:start], *sizes, *shape[stop:])), value)

    def _segment(self) -> Body:
        """The body of the outer loop: the inner one, which runs the iterations of a segment."""
        op = self.op
        types = _types(op)
        for number, axis in enumerate(op.sliced, start=op.carried):
            types[number] = stack(types[number], axis, self.length)
        build, leaves = self._leaves(types)
        operands = [leaves[name] for name in op.names]
        inner = replace(op, iterations=self.length)
        if _reads_iteration(op):
            length = build.add(Constant(self.length, DType.I32))
            operands.append(build.add(Mul(), leaves[ITERATION], length))
            inside, within = self._leaves(_types(op))
            number = len(op.names) - op.carried - len(op.sliced)
            base = inside.add(Input(f"{CAPTURED}{number}", DType.I32, ()))
            inner = replace(inner, body=_shifted(op, inside, within, base))
        results = build.add_all(inner, *operands)
        return _body(build, results[: op.carried], results[op.carried :])

    def _leaves(self, types: Sequence[TensorType]) -> tuple[Builder, dict[str, Value]]:
        """A builder of a body with the leaves of that of the loop, of these types."""
        build, op = Builder(), self.op
        build.origin = self.build.origin
        leaves = {ITERATION: build.add(op.body.inputs[ITERATION].op)}
        for name, of in zip(op.names, types, strict=True):
            leaves[name] = build.add(Input(name, of.dtype, of.shape))
        return build, leaves


def _types(op: Loop) -> list[TensorType]:
    """Returns the type that an iteration reads of each operand."""
    return [op.body.inputs[name].type for name in op.names]


def _reads_iteration(op: Loop) -> bool:
    """True if an iteration depends on its number."""
    number = op.body.inputs[ITERATION]
    read = {each.id for value in op.body.graph.values for each in value.operands}
    return number.id in read or any(value is number for value in (*op.next, *op.given))


def _shifted(op: Loop, build: Builder, leaves: Mapping[str, Value], base: Value) -> Body:
    """The body where the number of an iteration begins at a base."""
    iteration_index = build.add(Add(), leaves[ITERATION], base)
    _, following, given = op.instantiate(build, {**leaves, ITERATION: iteration_index})
    return _body(build, following, given)


def _body(build: Builder, following: Sequence[Value], given: Sequence[Value]) -> Body:
    """The graph of an iteration that carries these values, and collects those."""
    outputs = {f"{CARRY}{number}": value for number, value in enumerate(following)}
    outputs |= {f"{COLLECTED}{number}": value for number, value in enumerate(given)}
    return Body(build.graph(outputs))


__all__ = ["checkpoint_loops", "segment_length", "stored_by_loops"]
