"""Integers that pick something out of a number of things: classes, words, positions.

An index has to be one of 0 ... count - 1. That is proved of most that are computed, from what
their values can be. One that is an input or a parameter, moved at most, is checked where its
values come from. All others are checked while the graph runs: `with_checks` has it give the
largest of them as an unsigned number, in which negative ones are larger than any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from meganeura_dsl.ir.graph import (
    Application,
    Body,
    Builder,
    Graph,
    Leaf,
    Op,
    Origin,
    Value,
    dependencies,
)
from meganeura_dsl.ir.interval_analysis import Range, Ranges, ranges_of
from meganeura_dsl.ir.ops import (
    Broadcast,
    Cast,
    Compare,
    Constant,
    DynamicSlice,
    DynamicUpdate,
    Gather,
    Input,
    Iota,
    Parameter,
    ReduceMax,
    Slice,
    Sum,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full, is_zero
from meganeura_dsl.ir.ops.primitive.loop import CARRY, ITERATION, Loop
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim, Size, evaluate, show


@dataclass(frozen=True)
class Bound:
    """The bound of an index: 0 ... count - 1, or a value that the program compares it with.

    A loss that leaves out labels compares them with the number that stands for none, such as -100.
    """

    count: int
    exempt: frozenset[int] = frozenset()
    shown: str = field(default="", compare=False)
    """The count as the program has it: `v = 50`."""
    location: str = field(default="", compare=False)
    """The line of the program with the index."""

    @property
    def least(self) -> int:
        """The least value of those that reach 0 without a gap."""
        least = 0
        while least - 1 in self.exempt:
            least -= 1
        return least

    def narrowed(self, other: Bound) -> Bound:
        """Returns the bound that satisfies both, reported as the narrower one."""
        least = min(self, other, key=lambda bound: bound.count)
        return Bound(least.count, self.exempt & other.exempt, least.shown, least.location)


@dataclass(frozen=True)
class Use:
    """An index, and what it is used for."""

    ids: Value
    count: Size
    user: Value


def leaf_bounds(graph: Graph, sizes: Mapping[str, int] | None = None) -> dict[str, Bound]:
    """The bound of each input, and each parameter that stays, that is used as an index.

    `sizes` are the numbers of sizes that the graph leaves open.
    """
    compared = _compared_with(graph)
    bounds: dict[str, Bound] = {}
    for use in _uses(graph):
        leaf = _given(graph, _source(use.ids).op)
        count = _number(use.count, sizes or {})
        if leaf is None or count is None:
            continue
        exempt = compared.get(leaf.name, []) if isinstance(use.user.op, Compare) else []
        shown = f"{show(use.count)} = {count}" if isinstance(use.count, Dim) else str(count)
        bound = Bound(count, frozenset(exempt), shown, location_of(use.user.origin))
        bounds[leaf.name] = bounds.get(leaf.name, bound).narrowed(bound)
    return bounds


def inputs_that_pick(graph: Graph) -> Iterator[Use]:
    """The inputs whose elements, moved at most, are used as indices, in bodies of loops too."""
    for use in _uses(graph):
        for leaf in _moved_from(use.ids):
            yield Use(leaf, use.count, use.user)
    for value in graph.values:
        if isinstance(value.op, Loop):
            operands = dict(zip(value.op.names, value.operands, strict=True))
            for use in inputs_that_pick(value.op.body.graph):
                leaf = use.ids.op
                if isinstance(leaf, Input) and leaf.name in operands:
                    for outer in _moved_from(operands[leaf.name]):
                        yield Use(outer, use.count, use.user)


def all_of(first: Mapping[str, Bound], second: Mapping[str, Bound]) -> dict[str, Bound]:
    """The bounds of both."""
    merged = dict(first)
    for name, bound in second.items():
        merged[name] = merged.get(name, bound).narrowed(bound)
    return merged


def with_checks(graph: Graph) -> Graph:
    """The graph with an output for each index that is neither proved nor seen where it comes from.

    All sizes have to be numbers. A graph that needs no check is returned as it is.
    """
    bounds = leaf_bounds(graph)
    given = {
        name: Range(min(0, *bound.exempt, 0), max(bound.count - 1, *bound.exempt, 0))
        for name, bound in bounds.items()
    }
    return _checked(graph, bounds, given)


def _checked(graph: Graph, bounds: Mapping[str, Bound], given: Mapping[str, Range]) -> Graph:
    """The graph with checks, where the leaves that have `bounds` are seen elsewhere.

    `given` is what is known of leaves.
    """
    ranges = ranges_of(graph, given)
    uses = [*_unproved(graph, bounds, ranges)]
    loops = _checked_loops(graph, ranges)
    if not uses and not loops:
        return graph
    build = Builder()
    values: dict[int, Value] = {}
    largest: list[tuple[IndexCheck, Value]] = []
    for value in graph.values:
        operands = [values[each.id] for each in value.operands]
        loop = loops.get(value.application) if value.op.bodies else None
        with build.at(value.origin):
            if loop is None:
                values[value.id] = build.reapply(value, *operands)
                continue
            results = build.add_all(loop.op, *operands)
            values[value.id] = results[value.index]
            over = [build.add(ReduceMax((0,)), each) for each in results[-len(loop.checks) :]]
            largest += zip(loop.checks, over, strict=True)
    compared = _exempt_values(graph)
    for use in uses:
        ids, count = values[use.ids.id], concrete(use.count)
        exempt = compared.get(use.ids.id, ()) if isinstance(use.user.op, Compare) else ()
        with build.at(use.user.origin):
            check = IndexCheck(0, ids.type.dtype, count, location_of(use.user.origin))
            largest.append((check, _largest(build, ids, exempt)))
    checks = {
        replace(check, number=number): value
        for number, (check, value) in enumerate(dict.fromkeys(largest))
    }
    outputs = {name: values[value.id] for name, value in graph.outputs.items()}
    updates = {name: values[value.id] for name, value in graph.updates.items()}
    return build.graph({**outputs, **checks}, updates)


@dataclass(frozen=True)
class _CheckedLoop:
    """A loop that also collects the largest index of each check in its body."""

    op: Loop
    checks: tuple[IndexCheck, ...]


def _checked_loops(graph: Graph, ranges: Ranges) -> dict[Application, _CheckedLoop]:
    """The loops in whose bodies an index has to be checked."""
    found: dict[Application, _CheckedLoop] = {}
    for value in graph.values:
        op = value.op
        if not isinstance(op, Loop) or value.application in found:
            continue
        known = {ITERATION: Range(0, concrete(op.iterations) - 1)}
        for name, operand in zip(op.names, value.operands, strict=True):
            range_ = ranges.get(operand.id)
            if range_ is not None and not name.startswith(CARRY):
                known[name] = range_
        body = _checked(op.body.graph, {}, known)
        checks = checks_of(body)
        if checks:
            outputs = dict(body.outputs)
            extra = [outputs.pop(check) for check in checks]
            plain = replace(op, body=Body(Graph(body.values, outputs)))
            found[value.application] = _CheckedLoop(plain.extended(extra), checks)
    return found


def checks_of(graph: Graph) -> tuple[IndexCheck, ...]:
    """The checks among the outputs of a graph."""
    return tuple(name for name in graph.outputs if isinstance(name, IndexCheck))


def location_of(origin: Origin) -> str:
    """Returns the origin of a value in one line: `sage.mgn:9 gather(x, source)`."""
    if origin.span is None:
        return origin.path
    span = origin.span
    text = span.text.partition("\n")[0]
    shown = text if text.isidentifier() or "(" in text else span.source.line(span.line).strip()
    return f"{PurePath(span.source.name).name}:{span.line}  {shown}"


def _given(graph: Graph, op: Op) -> Leaf | None:
    """The leaf that an op is, if all of its values come from outside of the graph."""
    if isinstance(op, Parameter):
        return None if op.name in graph.updates else op
    return op if isinstance(op, Input) else None


def _unproved(graph: Graph, bounds: Mapping[str, Bound], ranges: Ranges) -> Iterator[Use]:
    """The uses of indices that have to be checked while the graph runs, each index once.

    Of one index, any other use comes before a comparison, which leaves some numbers out.
    """
    picked, numbered = _picked(graph), _numbered(graph)
    seen: dict[tuple[int, int], Use] = {}
    for use in _uses(graph):
        count, ids = concrete(use.count), _whole(use.ids)
        leaf = _source(ids).op
        if isinstance(leaf, Leaf) and leaf.name in bounds:
            continue
        is_compared = isinstance(use.user.op, Compare)
        if is_compared and not (
            (use.user.id in picked and _depends(ids))
            or (use.user.id in numbered and _depends(ids, on_iterations=False))
        ):
            continue
        range_ = ranges.get(ids.id)
        if range_ is not None and range_.within(0, count - 1):
            continue
        if ids.type.dtype in (DType.I32, DType.U32):
            key = ids.id, count
            if key not in seen or (isinstance(seen[key].user.op, Compare) and not is_compared):
                seen[key] = Use(ids, count, use.user)
    yield from seen.values()


def _depends(ids: Value, *, on_iterations: bool = True) -> bool:
    """True if an index depends on an input, a parameter, a random number or the iteration."""
    leaves = (each.op for each in dependencies([ids]) if isinstance(each.op, Leaf))
    return any(on_iterations or leaf.name != ITERATION for leaf in leaves)


def _picked(graph: Graph) -> set[int]:
    """The comparisons that pick what is summed: those c in sum(where(c, x, 0)) of a loss."""
    summed = {value.operands[0].id for value in graph.values if isinstance(value.op, Sum)}
    return {
        value.operands[0].id
        for value in graph.values
        if isinstance(value.op, Where) and value.id in summed and _is_zero(value.operands[2])
    }


def _numbered(graph: Graph) -> set[int]:
    """The comparisons that become numbers, 1 where an index is meant, as `one_hot` makes them."""
    return {
        value.operands[0].id
        for value in graph.values
        if isinstance(value.op, Cast) and value.op.dtype is not DType.BOOL
    }


def _is_zero(value: Value) -> bool:
    """True if a value is 0 everywhere, also through views that `is_zero` does not know."""
    while _has_same_values(value):
        value = value.operands[0]
    return is_zero(value)


def _largest(build: Builder, ids: Value, exempt: frozenset[int] | tuple[int, ...]) -> Value:
    """The largest of some indices as u32, of which negative ones are the largest."""
    for number in sorted(exempt):
        is_exempt = build.add(Compare("eq"), ids, full(build, ids.type, number))
        ids = build.add(Where(), is_exempt, full(build, ids.type, 0), ids)
    unsigned = ids if ids.type.dtype is DType.U32 else build.add(Cast(DType.U32), ids)
    axes = tuple(range(ids.type.rank))
    return build.add(ReduceMax(axes), unsigned) if axes else unsigned


def _compared_with(graph: Graph) -> dict[str, list[int]]:
    """Returns the whole numbers that each input and parameter is compared with."""
    compared: dict[str, list[int]] = {}
    for value, number in _comparisons(graph.values):
        leaf = _source(value).op
        if isinstance(leaf, Leaf):
            compared.setdefault(leaf.name, []).append(number)
    return compared


def _exempt_values(graph: Graph) -> dict[int, frozenset[int]]:
    """Returns the whole numbers that each index, by number, is compared with."""
    compared: dict[int, frozenset[int]] = {}
    for value, number in _comparisons(graph.values):
        ids = _whole(value).id
        compared[ids] = compared.get(ids, frozenset()) | {number}
    return compared


def _comparisons(values: Iterable[Value]) -> Iterator[tuple[Value, int]]:
    """Values and the whole numbers they are compared with."""
    for value in values:
        if not isinstance(value.op, Compare):
            continue
        for one, other in (value.operands, value.operands[::-1]):
            match _source(other).op:
                case Constant(value=int(number)):
                    yield one, number
                case _:
                    pass


def _uses(graph: Graph) -> Iterator[Use]:
    """All indices of a graph, and how many things each chooses from."""
    for value in graph.values:
        for position, count in value.op.index_operands(
            *(operand.type for operand in value.operands)
        ):
            yield Use(value.operands[position], count, value)
        for ids, count in counted_by(value):
            yield Use(ids, count, value)


def counted_by(value: Value) -> Iterator[tuple[Value, Size]]:
    """Yields values that a comparison compares with 0, 1, ..., and the count of those.

    Where it varies along the axis of these numbers, each of its elements is compared with one of
    them alone, which indexes nothing.
    """
    if value.op == Compare("eq"):
        for one, other in (value.operands, value.operands[::-1]):
            counted = _source(other).op
            if isinstance(counted, Iota) and not _axes(one) & _axes(other):
                yield one, counted.size


def _axes(value: Value) -> frozenset[int]:
    """The axes of a value along which it may vary, as far as broadcasts and moves say it."""
    match value.op:
        case Broadcast(axes=axes):
            return frozenset(axes[axis] for axis in _axes(value.operands[0]))
        case Transpose(permutation=permutation):
            inner = _axes(value.operands[0])
            return frozenset(axis for axis, before in enumerate(permutation) if before in inner)
        case Cast():
            return _axes(value.operands[0])
        case _:
            return frozenset(range(value.type.rank))


def numbers_compared_with(values: Iterable[Value], ids: Value) -> frozenset[int]:
    """The whole numbers that an index is compared with."""
    source = _source(ids)
    return frozenset(number for value, number in _comparisons(values) if _source(value) is source)


def _source(value: Value) -> Value:
    """Returns the value whose elements a value holds, if they are integers."""
    while _has_same_values(value) and not value.operands[0].type.dtype.is_float:
        value = value.operands[0]
    return value


def _moved_from(value: Value) -> Iterator[Value]:
    """The inputs whose elements are among those of a value of whole numbers, each once."""
    pending, seen = [value], set[int]()
    while pending:
        value = pending.pop()
        if value.id in seen or value.type.dtype.is_float or value.type.dtype is DType.BOOL:
            continue
        seen.add(value.id)
        match value.op:
            case Input():
                yield value
            case Gather() | DynamicSlice():
                pending.append(value.operands[0])
            case Where():
                pending += value.operands[1:]
            case DynamicUpdate():
                pending += value.operands[:2]
            case op if isinstance(op, Cast) or not op.traits.isdisjoint(
                {Trait.VIEW, Trait.MOVEMENT}
            ):
                pending += value.operands
            case _:
                pass


def _whole(value: Value) -> Value:
    """The smallest value that holds all values of one, and no others: a slice leaves some out."""
    source = _source(value)
    while value is not source and not isinstance(value.op, Slice):
        value = value.operands[0]
    return value


def _has_same_values(value: Value) -> bool:
    """True if a value holds values of its operand and no others, if those are integers."""
    return Trait.VIEW in value.op.traits or isinstance(value.op, Cast)


def _number(size: Size, sizes: Mapping[str, int]) -> int | None:
    if isinstance(size, Dim):
        return evaluate(size, sizes) if size.variables() <= sizes.keys() else None
    return size
