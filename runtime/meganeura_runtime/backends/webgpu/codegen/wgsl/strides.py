"""Finds the variable, of two, along which neighbours in memory lie, by trying some points."""

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Atom,
    Axis,
    BoundsCheck,
    Inside,
    Loaded,
    Quotient,
    Remainder,
)

POINTS = 7


def stride_along(index: Affine, axis: Axis) -> int:
    """Returns the distance to the next element along an axis, at most points; 0 if it is the same.

    The other variables are at 1, where a kernel's taps do not reach into the padding.
    """
    last = axis.size - 2
    if last < 0:
        return 0
    starts = {last * number // POINTS for number in range(1, POINTS)}
    steps = Counter(
        abs(at(index, {axis.name: start + 1}) - at(index, {axis.name: start})) for start in starts
    )
    return max(steps, key=steps.__getitem__)


def at(index: Affine, point: Mapping[str, int]) -> int:
    """An index at a point; variables that are not named are 1, or 0 where they must be."""
    return index.constant + sum(count * _atom(atom, point) for atom, count in index.terms)


def _atom(atom: Atom, point: Mapping[str, int]) -> int:
    match atom:
        case Axis(name, size):
            return point.get(name, min(1, size - 1))
        case Quotient(numerator, divisor):
            return at(numerator, point) // divisor
        case Remainder(numerator, divisor):
            return at(numerator, point) % divisor
        case Inside(guard):
            return _inside(guard, point)
        case Loaded():
            return 0
        case _:
            assert_never(atom)


def _inside(guard: BoundsCheck, point: Mapping[str, int]) -> int:
    position = at(guard.position, point)
    inside = position % guard.step == 0 and 0 <= position // guard.step < guard.size
    return position // guard.step if inside else 0
