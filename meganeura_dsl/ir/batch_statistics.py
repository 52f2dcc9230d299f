"""Values of a graph that are functions of sums over the examples of a batch.

Such a value is the same however the examples are divided into batches, if the sums are added up
and the function is applied to them: a mean over chosen elements is one of sums. A value in which
examples meet otherwise, as the logits of a contrastive loss or a deviation over the batch, is not.

The graph has sizes as symbols, so that axes of examples differ from others by their size.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    Cumulative,
    Div,
    Gather,
    Iota,
    LinearRecurrence,
    MatMul,
    MaxPool,
    Mul,
    Neg,
    Pad,
    Parameter,
    RandomBits,
    ReduceMax,
    Reshape,
    Reverse,
    Slice,
    Sort,
    StopGradient,
    Sub,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.polynomial import Dim, terms_of, variables_of
from meganeura_dsl.symbolic.size import dim, product


class Meeting(Enum):
    """The way examples meet in a value that has no axis of them."""

    NOT = "not"
    """The value depends on no example, nor on their number."""
    SUM = "sum"
    """The value is a sum over the examples."""
    MAX = "max"
    """The value is the largest over the examples."""
    AFTER = "after"
    """The value is a function of such values."""


Kind = Meeting | int | None
"""The dependence of a value on the examples: the axis where each has its own part; a `Meeting`;
or None for any other."""


@dataclass(frozen=True)
class Statistics:
    """Values as functions of others that are added up, or of which the largest counts."""

    joined: Mapping[int, Meeting]
    """The way each value, by number, is joined over batches: `SUM`, `MAX`, or `NOT` if it is
    equal in each."""
    computed: tuple[int, ...]
    """The numbers of the values that are computed from those, in order."""


def statistics(graph: Graph, counter: str, wanted: Iterable[Value]) -> Statistics | None:
    """Returns the statistics that values are computed from, where `counter` is the batch size.

    `None` where examples meet in one of them in another way.
    """
    kinds = kinds_of(graph, counter)
    numbers = {value.id: number for number, value in enumerate(graph.values)}
    joined: dict[int, Meeting] = {}
    computed: set[int] = set()
    waiting = list(wanted)
    while waiting:
        value = waiting.pop()
        number, kind = numbers[value.id], kinds[value.id]
        if number in computed or number in joined:
            continue
        if kind is Meeting.AFTER or isinstance(value.op, Constant):
            computed.add(number)
            waiting += value.operands
        elif isinstance(kind, Meeting):
            joined[number] = kind
        else:
            return None
    return Statistics(joined, tuple(sorted(computed)))


def matching(
    parts: Statistics, symbolic: Graph, wanted: Value, value: Value
) -> dict[int, Value] | None:
    """The values of a graph without symbols that are those of `parts`, by their numbers.

    `value` is what `wanted` is there; `None` where it is computed otherwise.
    """
    numbers = {each.id: number for number, each in enumerate(symbolic.values)}
    found: dict[int, Value] = {}
    waiting = [(wanted, value)]
    while waiting:
        general, value = waiting.pop()
        number = numbers[general.id]
        found[number] = value
        if number in parts.joined:
            continue
        if type(general.op) is not type(value.op) or len(general.operands) != len(value.operands):
            return None
        waiting += zip(general.operands, value.operands, strict=True)
    return found


def is_plain_mean(found: Statistics, graph: Graph, counter: str, wanted: Value) -> bool:
    """True if a value is a sum of means over the examples, and of what does not depend on them.

    Its mean over batches, each weighted by its examples, is then that over all examples.
    """
    numbers = {value.id: number for number, value in enumerate(graph.values)}

    def is_same(value: Value) -> bool:
        if isinstance(value.op, Constant):
            return not _counts(value.op.value, counter)
        return found.joined.get(numbers[value.id]) is Meeting.NOT

    def is_mean(value: Value) -> bool:
        if is_same(value):
            return True
        match value.op, value.operands:
            case Div(), (total, Value(op=Constant(size))) if isinstance(size, Dim):
                (monomial, *others) = terms_of(size)
                is_sum = found.joined.get(numbers[total.id]) is Meeting.SUM
                return is_sum and not others and monomial.count(counter) == 1
            case ((Neg() | Cast() | Reshape() | Broadcast() | Sum() | StopGradient()), (x,)):
                is_computed = numbers[value.id] in found.computed
                return is_computed and value.type.dtype.is_float and is_mean(x)
            case ((Add() | Sub()), (a, b)):
                return is_mean(a) and is_mean(b)
            case Mul(), (a, b):
                return (is_mean(a) and is_same(b)) or (is_same(a) and is_mean(b))
            case Div(), (a, b):
                return is_mean(a) and is_same(b)
            case _:
                return False

    return is_mean(wanted)


def _counts(size: object, counter: str) -> bool:
    """True if a number depends on how many examples there are."""
    return isinstance(size, Dim) and counter in variables_of(size)


def kinds_of(graph: Graph, counter: str) -> dict[int, Kind]:
    """Returns the dependence of each value on the examples, by id."""
    kinds: dict[int, Kind] = {}
    for value in graph.values:
        axes = axes_of(value.type.shape, counter)
        if len(axes) > 1:
            kinds[value.id] = None
            continue
        before = [kinds[operand.id] for operand in value.operands]
        kind = None if None in before else _kind(value, before, counter)
        if isinstance(kind, int) != bool(axes) or (isinstance(kind, int) and [kind] != axes):
            kind = None
        kinds[value.id] = kind
    return kinds


def axes_of(shape: Shape, counter: str) -> list[int]:
    """The axes whose size depends on that of the batch."""
    return [axis for axis, size in enumerate(shape) if counter in variables_of(size)]


def _kind(value: Value, before: list[Kind], counter: str) -> Kind:
    """Returns the dependence of a value on the examples from that of its operands."""
    axes = axes_of(value.type.shape, counter)
    match value.op:
        case Constant(size):
            return Meeting.AFTER if _counts(size, counter) else Meeting.NOT
        case Parameter() | Iota():
            return _free(axes)
        case Leaf():
            is_own = axes and value.type.shape[axes[0]] == dim(counter)
            return axes[0] if is_own else _free(axes)
        case RandomBits():
            return axes[0] if axes else Meeting.NOT
        case _:
            pass
    rows = {kind for kind in before if isinstance(kind, int)}
    if not rows:
        if axes:  # a value for each example that is the same for all of them
            is_spread = isinstance(value.op, Broadcast) and before == [Meeting.NOT]
            return axes[0] if is_spread else None
        is_plain = all(kind is Meeting.NOT for kind in before)
        return Meeting.NOT if is_plain else Meeting.AFTER
    if any(kind in (Meeting.AFTER, Meeting.SUM, Meeting.MAX) for kind in before):
        return None
    return _of_rows(value, before, axes)


def _free(axes: list[int]) -> Kind:
    return None if axes else Meeting.NOT


def _of_rows(value: Value, before: list[Kind], axes: list[int]) -> Kind:
    """The same where operands have an axis of examples, and others depend on none."""
    op = value.op
    own = axes[0] if axes else None
    at = before[0]
    if Trait.ELEMENTWISE in op.traits:
        return own if all(kind == own for kind in before) else None
    match op:
        case Sum(over) if at in over:
            return Meeting.SUM if own is None else None
        case ReduceMax(over) if at in over:
            return Meeting.MAX if own is None else None
        case Sum() | ReduceMax() | Broadcast() | Transpose():
            return own
        case ArgMax(axis=axis) | Cumulative(axis=axis) | Sort(axis=axis) | Concat(axis=axis):
            return own if axis not in before else None
        case LinearRecurrence(axis=axis):
            return own if before == [own, own] and axis != own else None
        case Reverse(over):
            return own if at not in over else None
        case Reshape():
            return _reshaped(value, at, own)
        case Slice() | Pad():
            return own if _is_whole(value, at) else None
        case MatMul():
            return _product(value, before, own)
        case Conv() | MaxPool():
            return own if (at, *before[1:]) == (0, *[Meeting.NOT] * len(before[1:])) else None
        case Gather(axis=axis, batch=batch):
            if at is Meeting.NOT:
                return own
            is_own = before == [own, own] and own is not None and own < batch
            is_apart = before[1] is Meeting.NOT and axis != at
            return own if is_own or is_apart else None
        case _:
            return None


def _reshaped(value: Value, at: Kind, own: int | None) -> Kind:
    """Examples stay in their order, each in one piece, if as much stands before their axis."""
    old, new = value.operands[0].type.shape, value.type.shape
    is_whole = isinstance(at, int) and product(old[:at]) == product(new[:own])
    return own if is_whole else None


def _is_whole(value: Value, at: Kind) -> bool:
    """True if a slice or padding leaves the axis of examples as it is."""
    if not isinstance(at, int):
        return False
    match value.op:
        case Slice(start=start, step=step):
            is_first = start[at] == 0 and step[at] == 1
        case Pad(low=low, high=high, interior=interior):
            is_first = low[at] == high[at] == interior[at] == 0
        case _:
            return False
    return is_first and value.operands[0].type.shape[at] == value.type.shape[at]


def _product(value: Value, before: list[Kind], own: int | None) -> Kind:
    """A product adds up examples where its summed axis is theirs, in both operands."""
    op = value.op
    assert isinstance(op, MatMul)
    left, right = (each.type.rank for each in value.operands)
    summed = [
        left - (2 if op.transpose_left else 1),
        right - (1 if op.transpose_right else 2),
    ]
    if before == summed and own is None:
        return Meeting.SUM
    is_mixed = any(kind == axis for kind, axis in zip(before, summed, strict=True))
    return None if is_mixed else own
