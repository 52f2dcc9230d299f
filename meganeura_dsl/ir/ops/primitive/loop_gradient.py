"""The gradient of a loop: a loop that goes back over its iterations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops.primitive.broadcast import Sum, full
from meganeura_dsl.ir.ops.primitive.contraction import MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add
from meganeura_dsl.ir.ops.primitive.loop import CARRY, ITERATION, Loop
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region, Sliced
from meganeura_dsl.ir.ops.primitive.movement import Reshape, Transpose
from meganeura_dsl.ir.ops.primitive.reverse_mode import pull_back
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.symbolic.size import product

SAVED = frozenset((Trait.CONTRACTION, Trait.ATTENTION, Trait.TRANSFORM, Trait.LOOP))
"""Traits of ops that are not computed again in the backward loop."""

Later = Callable[[], Value]
"""A value that there is once the loop was applied."""


class LoopGradient:
    """The cotangents of a loop's operands.

    The loop back carries the cotangents of the carries, reads those of what was collected, and
    collects those of what was sliced. What each iteration began with, and its products, are read
    from memory: the loop forth is applied once more, and collects them too. All else is computed
    again. Neither loop stops: iterations that do not count collect numbers whose derivatives are
    finite.
    """

    def __init__(
        self, op: Loop, build: Builder, out: tuple[Value, ...], given: tuple[Value | None, ...]
    ) -> None:
        self.op = op
        self.build = build
        self.operands = out[0].operands
        self.ends, self.stacks = given[: op.carried], given[op.carried :]
        self.first = build.count
        self.region = Region(build, op.iterations)
        self.backward = not op.backward
        self.carries: list[Carry] = []
        self.collected: list[Collected] = []
        self.saved: dict[int, Value] = {}
        """The values that the forward loop can collect, by the id of the value here."""
        self.wanted: set[int] = set()
        """The ids of collected values that are read after the loop."""
        self.results: tuple[Value, ...] = ()

    def run(self) -> tuple[Value | None, ...]:
        """The cotangent of each operand."""
        op, region = self.op, self.region
        starts, sources, captured = op.parts(self.operands)
        carries = [region.leaf(each.type) for each in starts]
        slices = [
            region.slice(each, axis, backward=self.backward)
            for each, axis in zip(sources, op.sliced, strict=True)
        ]
        # Captured tensors may depend on each other, so that each is a separate leaf at first.
        rest = [region.leaf(each.type) for each in captured]
        leaves = [*carries, *slices, *rest]
        named = dict(zip(op.names, leaves, strict=True))
        rebuilt, following, given = op.instantiate(
            self.build, {ITERATION: region.iteration_index, **named}
        )
        ends = {index: region.leaf(starts[index].type) for index in self._active()}
        wrt = [leaf for leaf in leaves if leaf.type.dtype.is_float]
        found = pull_back(self.build, self._seeds(following, given, ends), wrt)
        settled = _Settled(self.build, self.first, zip(rest, captured, strict=True))
        parts = {
            leaf.id: settled.value(part)
            for leaf, part in zip(wrt, found, strict=True)
            if part is not None
        }
        self._offer(carries, rebuilt, settled)
        return self._close(ends, [parts.get(leaf.id) for leaf in leaves])

    def _active(self) -> list[int]:
        """The carries that the outputs depend on, at the end or in a later iteration."""
        op, inputs = self.op, self.op.body.inputs
        numbers = {inputs[f"{CARRY}{index}"].id: index for index in range(op.carried)}
        active = {index for index, known in enumerate(self.ends) if known is not None}
        waiting = [op.next[index] for index in active]
        waiting += [
            value for value, known in zip(op.given, self.stacks, strict=True) if known is not None
        ]
        seen: set[int] = set()
        while waiting:
            value = waiting.pop()
            if value.id in seen or not value.type.dtype.is_float:
                continue
            seen.add(value.id)
            waiting += value.operands
            index = numbers.get(value.id)
            if index is not None and index not in active:
                active.add(index)
                waiting.append(op.next[index])
        return sorted(active)

    def _seeds(
        self, following: Sequence[Value], given: Sequence[Value], ends: Mapping[int, Value]
    ) -> dict[Value, Value]:
        """The cotangents of an iteration's carries and collected values."""
        pairs = [(following[index], leaf) for index, leaf in ends.items()]
        for value, known, axis in zip(given, self.stacks, self.op.collected, strict=True):
            if known is not None:
                pairs.append((value, self.region.slice(known, axis, backward=self.backward)))
        seeds: dict[Value, Value] = {}
        for value, cotangent in pairs:
            known = seeds.get(value)
            seeds[value] = cotangent if known is None else self.build.add(Add(), known, cotangent)
        return seeds

    def _offer(
        self, carries: Sequence[Value], rebuilt: Mapping[int, Value], settled: "_Settled"
    ) -> None:
        """Note what need not be computed, as the loop forth can collect it."""
        for index, leaf in enumerate(carries):
            self.saved[leaf.id] = self.op.body.inputs[f"{CARRY}{index}"]
        for value in self.op.body.graph.values:
            if not value.op.traits.isdisjoint(SAVED):
                forth = settled.value(rebuilt[value.id])
                if self.region.depends(forth):
                    self.saved.setdefault(forth.id, value)
        for number in self.saved:
            self.region.cut(number)

    # --- what is carried, collected and summed ---------------------------------------------------

    def _close(
        self, ends: Mapping[int, Value], parts: Sequence[Value | None]
    ) -> tuple[Value | None, ...]:
        """Returns the loop's result for each operand, from cotangents of an iteration's leaves."""
        op, later = self.op, dict[int, Later]()
        for index, leaf in ends.items():
            zero = full(self.build, leaf.type, 0)
            later[index] = self._carry(leaf, self.ends[index] or zero, parts[index] or zero)
        for number, axis in enumerate(op.sliced, start=op.carried):
            part = parts[number]
            if part is not None:
                later[number] = self._collect(part, axis)
        count = op.carried + len(op.sliced)
        sums = {
            number: list(_terms(part))
            for number, part in enumerate(parts)
            if part is not None and number >= count
        }
        totals = self._totals({term.id: term for terms in sums.values() for term in terms})
        self._apply()
        found = {number: each() for number, each in later.items()}
        for number, terms in sums.items():
            over = [totals[term.id]() for term in terms]
            found[number] = reduce(lambda a, b: self.build.add(Add(), a, b), over)
        return tuple([found.get(number) for number in range(len(parts))])

    def _totals(self, terms: Mapping[int, Value]) -> dict[int, Later]:
        """The sums of terms over all iterations.

        A sum of products is one product behind the loop, of all iterations at once: with each a
        stack of its iterations along the axis summed over, sum_t a[t]^T b[t] = a^T b. What is
        summed of a stack that there is for that is summed behind the loop too. All else is carried,
        and so is the product of an inner loop's stacks, which are not kept for every iteration of
        this one.
        """
        products = {number: term for number, term in terms.items() if self._is_product(term)}
        totals = {number: self._product(term) for number, term in products.items()}
        stacked = {each.id for term in products.values() for each in term.operands}
        for number, term in terms.items():
            if number in totals:
                continue
            if isinstance(term.op, Sum) and term.operands[0].id in stacked:
                totals[number] = self._sum(term.op, term.operands[0])
                continue
            leaf = self.region.leaf(term.type)
            added = self.build.add(Add(), leaf, term)
            totals[number] = self._carry(leaf, full(self.build, term.type, 0), added)
        return totals

    def _is_product(self, term: Value) -> bool:
        return isinstance(term.op, MatMul) and all(
            each.type.rank == 2 and self.region.depends(each) and not _is_stack(each)
            for each in term.operands
        )

    def _product(self, term: Value) -> Later:
        op = term.op
        assert isinstance(op, MatMul)
        axes = (0 if op.transpose_left else 1, 1 if op.transpose_right else 0)
        stacks = [self._stack(each, axis) for each, axis in zip(term.operands, axes, strict=True)]

        def joined(stack: Later, axis: int) -> Value:
            value = stack()
            before, after = value.type.shape[:axis], value.type.shape[axis + 2 :]
            size = product(value.type.shape[axis : axis + 2])
            return self.build.add(Reshape((*before, size, *after)), value)

        return lambda: self.build.add(op, *map(joined, stacks, axes))

    def _sum(self, op: Sum, value: Value) -> Later:
        stack = self._stack(value, 0)
        axes = (0, *(axis + 1 for axis in op.axes))
        return lambda: self.build.add(Sum(axes), stack())

    def _carry(self, leaf: Value, start: Value, following: Value) -> Later:
        number = len(self.carries)
        self.carries.append(Carry(leaf, start, following))
        return lambda: self.results[number]

    def _collect(self, value: Value, axis: int) -> Later:
        each = Collected(value, axis)
        if each not in self.collected:
            self.collected.append(each)
        number = self.collected.index(each)
        return lambda: self.results[len(self.carries) + number]

    def _stack(self, value: Value, axis: int) -> Later:
        """The values of all iterations along a new axis, in memory once."""
        is_read = value.id in self.region.slices or value.id in self.saved
        if not is_read:
            known = [each.axis for each in self.collected if each.value is value]
            rebuilt = known[0] if known else axis
            stack = self._collect(value, rebuilt)
            return lambda: self._moved(stack(), rebuilt, axis)
        if value.id in self.saved:
            self.wanted.add(value.id)

        def read() -> Value:
            known = self.region.slices[value.id]
            return self._moved(known.source, known.axis, axis)

        return read

    def _moved(self, value: Value, axis: int, to: int) -> Value:
        if axis == to:
            return value
        order = [each for each in range(value.type.rank) if each != axis]
        order.insert(to, axis)
        return self.build.add(Transpose(tuple(order)), value)

    # --- the loops -------------------------------------------------------------------------------

    def _apply(self) -> None:
        """Apply the loop back to what the loop forth collects for it."""
        roots = [*(each.next for each in self.carries), *(each.value for each in self.collected)]
        read = {value.id for value in self.region.reached(roots)} | self.wanted
        saved = {number: value for number, value in self.saved.items() if number in read}
        extra = tuple(dict.fromkeys(saved.values()))
        if extra:
            extended = replace(self.op.extended(extra), stops=False)
            forth = self.build.add_all(extended, *self.operands)
            stacks = dict(zip(extra, forth[len(forth) - len(extra) :], strict=True))
            for number, value in saved.items():
                self.region.slices[number] = Sliced(stacks[value], 0, self.backward)
        attributes, operands = self.region.close(
            self.carries, self.collected, backward=self.backward
        )
        self.results = self.build.add_all(type(self.op)(*attributes), *operands)


def _terms(value: Value) -> Iterator[Value]:
    """Yields the terms of a sum."""
    if isinstance(value.op, Add):
        for operand in value.operands:
            yield from _terms(operand)
    else:
        yield value


def _is_stack(value: Value) -> bool:
    """True if a value is what a loop gives, in another shape or order."""
    while isinstance(value.op, Reshape | Transpose):
        (value,) = value.operands
    return isinstance(value.op, Loop)


class _Settled:
    """Values with leaves replaced by what these stand for."""

    def __init__(self, build: Builder, first: int, known: Iterable[tuple[Value, Value]]) -> None:
        """Leaves and what they stand for; nothing made before the value `first` reads them."""
        self.build = build
        self.first = first
        self.of = {leaf.id: value for leaf, value in known}

    def value(self, root: Value) -> Value:
        """A value, made anew if it depends on such a leaf."""
        waiting = [root]
        while waiting:
            value = waiting[-1]
            missing = [each for each in value.operands if not self._is_settled(each)]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if not self._is_settled(value):
                self.of[value.id] = self._again(value)
        return self._settled(root)

    def _is_settled(self, value: Value) -> bool:
        return value.id < self.first or value.id in self.of

    def _settled(self, value: Value) -> Value:
        return self.of.get(value.id, value)

    def _again(self, value: Value) -> Value:
        operands = [self._settled(each) for each in value.operands]
        if all(a is b for a, b in zip(operands, value.operands, strict=True)):
            return value
        with self.build.at(value.origin):
            return self.build.reapply(value, *operands)


__all__ = ["SAVED", "LoopGradient"]
