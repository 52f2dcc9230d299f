"""Values whose axes lie in another order in memory, and ops that move elements of such values."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import Broadcast, Concat, Pad, Reshape, Slice, Transpose
from meganeura_dsl.ir.ops.type_rules import concrete_shape


@dataclass(frozen=True, slots=True)
class Ordered:
    """A value with the axes of another one in another order."""

    value: Value
    order: tuple[int, ...]
    """The axis of the other one that each axis of `value` is."""


def in_order(build: Builder, of: Ordered) -> Value:
    """Returns a view of a value with its axes where they were."""
    if of.order == tuple(range(len(of.order))):
        return of.value
    inverse = tuple(map(of.order.index, range(len(of.order))))
    return build.add(Transpose(inverse), of.value)


def moved_elements(build: Builder, op: Op, operands: Sequence[Ordered | None]) -> Ordered | None:
    """Returns the result of an op that moves elements, in an order that follows its operands'.

    None if an operand is in its old order, or no order follows.
    """
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands) or len({operand.order for operand in known}) > 1:
        return None
    x = known[0]
    match op:
        case Transpose(permutation=permutation):
            return Ordered(x.value, tuple(map(permutation.index, x.order)))
        case Reshape(shape=shape):
            return _reshaped(build, x, concrete_shape(shape))
        case Broadcast() as op:
            return _repeated(build, x, op)
        case Concat(axis=axis):
            joined = build.add(Concat(x.order.index(axis)), *(one.value for one in known))
            return Ordered(joined, x.order)
        case Slice() as op:
            fields = (tuple(of[axis] for axis in x.order) for of in (op.start, op.stop, op.step))
            return Ordered(build.add(Slice(*fields), x.value), x.order)
        case Pad() as op:
            fields = (tuple(of[axis] for axis in x.order) for of in (op.low, op.high, op.interior))
            return Ordered(build.add(Pad(*fields), x.value), x.order)
        case _:
            return None


def _repeated(build: Builder, x: Ordered, op: Broadcast) -> Ordered:
    """Each further axis comes behind the one that it follows in the result."""
    order = [op.axes[axis] for axis in x.order]
    for axis in range(len(op.shape)):
        if axis not in op.axes:
            order.insert(order.index(axis - 1) + 1 if axis else 0, axis)
    shape = tuple(op.shape[axis] for axis in order)
    along = tuple(order.index(op.axes[axis]) for axis in x.order)
    return Ordered(build.add(Broadcast(shape, along), x.value), tuple(order))


def _reshaped(build: Builder, x: Ordered, shape: tuple[int, ...]) -> Ordered | None:
    """Axes are cut where they lie, and those are joined that lie side by side as before."""
    old = [0] * len(x.order)
    for axis, size in zip(x.order, concrete_shape(x.value.type.shape), strict=True):
        old[axis] = size
    order: list[int] = []
    at = 0
    groups = {before[0]: (before, after) for before, after in _groups(old, shape)}
    while at < len(x.order):
        before, after = groups.get(x.order[at], ((), ()))
        if not before or x.order[at : at + len(before)] != before:
            return None
        order += after
        at += len(before)
    found = build.add(Reshape(tuple(shape[axis] for axis in order)), x.value)
    return Ordered(found, tuple(order))


def _groups(
    old: Sequence[int], new: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns the fewest axes of both shapes, in order, that have as many elements."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, other, before, after = i, j, old[i], new[j]
        i, j = i + 1, j + 1
        while before != after:
            if before < after:
                before, i = before * old[i], i + 1
            else:
                after, j = after * new[j], j + 1
        found.append((tuple(range(first, i)), tuple(range(other, j))))
    if found and (i < len(old) or j < len(new)):
        before, after = found.pop()
        found.append(((*before, *range(i, len(old))), (*after, *range(j, len(new)))))
    return found
