"""Readings of a rearrangement, which match the axes of both sides: one, or two.

Axes are identified by how they are written. Where one side has equal ones, there are several
readings; the one that keeps the order of equal axes is taken, unless another is as plausible.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations


def in_order(source: Sequence[str], target: Sequence[str]) -> tuple[int, ...] | None:
    """Returns the source axis of each target axis, equal ones in order; None if axes differ."""
    if Counter(source) != Counter(target):
        return None
    positions: dict[str, list[int]] = defaultdict(list)
    for position, key in enumerate(source):
        positions[key].append(position)
    taken = {key: iter(found) for key, found in positions.items()}
    return tuple(next(taken[key]) for key in target)


def other_order(source: Sequence[str], order: tuple[int, ...]) -> tuple[int, ...] | None:
    """A second reading as plausible as `order`, or None if equal axes stay together.

    An axis that passes one of two equal axes, and not the other, could as well pass the other one:
    then the second reading has the two in each other's place.
    """
    positions = {axis: position for position, axis in enumerate(order)}

    def passes(axis: int, other: int) -> bool:
        return (axis < other) != (positions[axis] < positions[other])

    for first, second in combinations(range(len(source)), 2):
        if source[first] == source[second] and any(
            passes(axis, first) != passes(axis, second) for axis in range(len(source))
        ):
            swap = {first: second, second: first}
            return tuple(swap.get(axis, axis) for axis in order)
    return None


def first_fit(part: Sequence[str], whole: Sequence[str]) -> tuple[int, ...] | None:
    """Returns the first position in `whole` of each axis of `part`, in order; None without one."""
    positions: list[int] = []
    start = 0
    for key in part:
        position = next((i for i in range(start, len(whole)) if whole[i] == key), None)
        if position is None:
            return None
        positions.append(position)
        start = position + 1
    return tuple(positions)


def last_fit(part: Sequence[str], whole: Sequence[str]) -> tuple[int, ...] | None:
    """Returns the last positions, as `first_fit` does. If both agree, only one way fits."""
    positions = first_fit(part[::-1], whole[::-1])
    return (
        None
        if positions is None
        else tuple(len(whole) - 1 - position for position in reversed(positions))
    )
