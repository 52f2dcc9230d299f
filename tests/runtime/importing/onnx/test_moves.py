"""Two rearrangements as one move the elements as one behind the other does."""

from itertools import product
from math import prod

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.moves import Factor, Fixed, Move, split_and_joined

SHAPE = (2, 3, 4, 5)
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2), (1, 2, 3, 0))
JOINED = ((1, 1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2), (1, 3), (3, 1), (4,))
"""The number of axes joined to each, or split from it."""


def turned(order: tuple[int, ...]) -> Move:
    """A transposition."""
    return Move(tuple((axis,) for axis in range(len(order))), tuple((axis,) for axis in order))


def moved(move: Move, x: Array) -> Array:
    """Returns the rearranged array: its axes split, transposed and joined."""
    sizes: dict[Factor, int] = {}
    for axis, size in zip(move.source, x.shape, strict=True):
        known = {each: each.size for each in axis if isinstance(each, Fixed)}
        whole = {each: int(str(number)) for each, number in known.items()}
        sizes |= whole
        sizes |= {each: size // prod(whole.values()) for each in axis if each not in known}
    before = [each for axis in move.source for each in axis]
    after = [each for axis in move.target for each in axis]
    split = x.reshape([sizes[each] for each in before])
    across = split.transpose([before.index(each) for each in after])
    return across.reshape([prod(sizes[each] for each in axis) for axis in move.target])


def parts(counts: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """Runs of axes, each with the product of it."""
    found: list[tuple[tuple[int, ...], int]] = []
    for count in counts:
        run, shape = shape[:count], shape[count:]
        found.append((run, prod(run)))
    return found


def test_one_behind_another_is_both() -> None:
    x = np.arange(prod(SHAPE)).reshape(SHAPE)
    joined: list[tuple[Move, tuple[int, ...]]] = []
    for counts in JOINED:
        runs = parts(counts, SHAPE)
        joined.append((split_and_joined([(run, (size,)) for run, size in runs]), counts))
    as_one = 0
    for (first, counts), order in product(joined, ORDERS):
        here = moved(first, x)
        assert here.shape == first.shape(SHAPE) == tuple(size for _, size in parts(counts, SHAPE))
        moves = [turned(tuple(axis for axis in order if axis < here.ndim))]
        runs = [(run, size) for run, size in parts(counts, SHAPE)]
        moves.append(split_and_joined([((size,), run) for run, size in runs]))
        for second in moves:
            there = moved(second, here)
            assert there.shape == second.shape(here.shape)
            both = first.then(second)
            if both is not None:
                np.testing.assert_array_equal(moved(both, x), there)
                as_one += 1
            if there.ndim == len(SHAPE):
                continue
            third = second.then(turned(tuple(range(there.ndim))[::-1]))
            assert third is not None
            np.testing.assert_array_equal(moved(third, here), there.T)
    assert as_one > 3 * len(joined)


def test_a_transposed_axis_is_split_where_it_is() -> None:
    """Of all orders and splits; the axes are split of what was transposed, or the other way."""
    x = np.arange(6 * 4 * 10).reshape(6, 4, 10)
    runs = {6: ((6,), (2, 3), (3, 2)), 4: ((4,), (2, 2)), 10: ((10,), (5, 2))}
    orders = ((0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0))
    as_one = 0
    for order in orders:
        first = turned(order)
        here = moved(first, x)
        for chosen in product(*(runs[size] for size in here.shape)):
            groups = [((size,), run) for size, run in zip(here.shape, chosen, strict=True)]
            split = split_and_joined(groups)
            there = moved(split, here)
            assert there.shape == tuple(size for run in chosen for size in run)
            both = first.then(split)
            if both is not None:
                np.testing.assert_array_equal(moved(both, x), there)
                as_one += 1
            last = turned(tuple(range(there.ndim))[::-1])
            back = split.then(last)
            if back is not None:
                np.testing.assert_array_equal(moved(back, here), there.T)
            if both is not None and (whole := both.then(last)) is not None:
                np.testing.assert_array_equal(moved(whole, x), there.T)
    assert as_one > 20


def test_a_swap_of_the_last_axes_is_apart() -> None:
    """Of keys: split into heads, and those transposed and then turned, or both at once."""
    x = np.arange(2 * 5 * 12).reshape(2, 5, 12)
    split = split_and_joined([((2,), (2,)), ((5,), (5,)), ((12,), (3, 4))])
    keys = split.then(turned((0, 2, 1, 3)))
    both = split.then(turned((0, 2, 3, 1)))
    assert keys is not None
    assert both is not None
    assert keys.before_swap is None
    assert both.before_swap == keys
    np.testing.assert_array_equal(moved(keys, x).swapaxes(2, 3), moved(both, x))
