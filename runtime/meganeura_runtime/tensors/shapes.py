"""What two shapes that should be equal have to do with each other."""

from collections.abc import Sequence
from itertools import permutations


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
