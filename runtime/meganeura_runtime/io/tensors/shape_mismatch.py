"""Shapes that files claim: whether there can be such, and what two of them have in common."""

from collections.abc import Sequence
from itertools import permutations

MOST_AXES = 64
"""Axes of an array, as many as NumPy's may have."""
MOST_ELEMENTS = 1 << 60
"""Elements of an array, so that its bytes can be counted in 64 bits."""


def claimed_elements(shape: Sequence[int]) -> int:
    """Returns the number of elements of a shape. Raises `ValueError` for impossible shapes.

    An axis of no elements excuses none of the others. Numbers are never larger than a product of
    two sizes, so that a header of many digits takes no longer than it takes to read.
    """
    if len(shape) > MOST_AXES:
        raise ValueError(f"claims {len(shape):,} axes, and there can be {MOST_AXES}")
    count = 1
    for size in shape:
        if not 0 <= size <= MOST_ELEMENTS:
            raise ValueError("claims an impossible size")
        count *= size or 1
        if count > MOST_ELEMENTS:
            raise ValueError("claims an impossible shape, of more than 2**60 elements")
    return count if all(shape) else 0


def transposed(given: Sequence[int], wanted: Sequence[int], offset: int = 0) -> str:
    """A hint where one shape is a transposition of the other, else an empty text."""
    if tuple(given) == tuple(wanted) or sorted(given) != sorted(wanted) or len(given) > 6:
        return ""
    order = next(
        order
        for order in permutations(range(len(given)))
        if [given[axis] for axis in order] == list(wanted)
    )
    axes = [*range(offset), *(axis + offset for axis in order)]
    return f"the same sizes in another order: transposed by {axes}?"
