"""Formulas of ops that select by order or go along an axis, for sizes that are numbers."""

from collections.abc import Iterator, Sequence
from itertools import product

from meganeura_dsl.symbolic.size import Size
from tests.proofs.convolution_meanings import windows
from tests.proofs.primitive_meanings import Meaning, product_of
from tests.proofs.primitive_meanings import cumulative as running_sum
from tests.proofs.reals import NOTHING, ONE, Element, Index, Real, Whole, Zero, compare
from tests.proofs.tensors import Scope, Shape, Tensor, others, require


def first_extreme(parts: Sequence[tuple[Real, Real]], above: str) -> list[Real]:
    """For each of some numbers 1 if it is the first of the extreme ones, of those that count.

    A part is a number, and 1 if it counts. `above` is the relation of a number to a lesser one.
    """
    found: list[Real] = []
    for place, (x, counts) in enumerate(parts):
        factors = [counts]
        for other, (y, also) in enumerate(parts):
            if other != place:
                relation = above if other < place else f"{above[0]}e"
                factors.append(ONE - also * (ONE - compare(relation, x, y)))
        found.append(product_of(*factors))
    return found


def total_of(parts: Iterator[Real] | Sequence[Real]) -> Real:
    """The sum of numbers."""
    result: Real = NOTHING
    for part in parts:
        result = result + part
    return result


def plain(size: Size) -> int:
    """A size that is a number."""
    require(isinstance(size, int), f"{size} is no number")
    assert isinstance(size, int)
    return size


def along(index: Index, axis: int, place: Size) -> Index:
    """An index with another place along an axis."""
    return (*index[:axis], place, *index[axis + 1 :])


# --- windows --------------------------------------------------------------------------------------


def _taps(
    places: Sequence[Size], window: Shape, stride: Shape, padding: Shape
) -> list[tuple[Size, ...]]:
    """Where the taps of a window fall, in row-major order; some are outside."""
    starts = [p * by - around for p, by, around in zip(places, stride, padding, strict=True)]
    steps = product(*(range(plain(size)) for size in window))
    return [tuple(s + t for s, t in zip(starts, step, strict=True)) for step in steps]


def _is_inside(place: Sequence[Size], spatial: Shape) -> bool:
    return all(0 <= plain(at) < plain(size) for at, size in zip(place, spatial, strict=True))


def _pooled(scope: Scope, x: Tensor, window: Shape, stride: Shape, padding: Shape) -> Shape:
    dense = (1,) * len(window)
    return (*x.shape[:2], *windows(scope, x.shape[2:], window, stride, padding, dense))


def max_pool(
    scope: Scope, x: Tensor, window: Shape, stride: Shape, padding: Shape, result: int
) -> Tensor:
    def at(index: Index) -> Real:
        n, c, *places = index
        taps = enumerate(_taps(places, window, stride, padding))
        inside = [(number, tap) for number, tap in taps if _is_inside(tap, x.shape[2:])]
        values = [x.at((n, c, *tap)) for _, tap in inside]
        chosen = first_extreme([(value, ONE) for value in values], "gt")
        wanted = [Whole(number) for number, _ in inside] if result else values
        return total_of([a * b for a, b in zip(chosen, wanted, strict=True)])

    return Tensor("i32" if result else x.dtype, _pooled(scope, x, window, stride, padding), at)


def max_pool_gradient(
    scope: Scope,
    indices: Tensor,
    dy: Tensor,
    window: Shape,
    stride: Shape,
    padding: Shape,
    spatial: Shape,
) -> Tensor:
    """The sum of what windows give to the tap at their index."""

    def at(index: Index) -> Real:
        n, c, *place = index
        return total_of(
            dy.at((n, c, *from_)) * Zero(indices.at((n, c, *from_)) - Whole(number))
            for from_ in product(*(range(plain(size)) for size in dy.shape[2:]))
            for number, tap in enumerate(_taps(from_, window, stride, padding))
            if tap == tuple(place)
        )

    return Tensor(dy.dtype, (*dy.shape[:2], *spatial), at)


def max_pool_select(
    scope: Scope, indices: Tensor, g: Tensor, window: Shape, stride: Shape, padding: Shape
) -> Tensor:
    def at(index: Index) -> Real:
        n, c, *places = index
        return total_of(
            g.at((n, c, *tap)) * Zero(indices.at(index) - Whole(number))
            for number, tap in enumerate(_taps(places, window, stride, padding))
            if _is_inside(tap, g.shape[2:])
        )

    return Tensor(g.dtype, indices.shape, at)


# --- order ----------------------------------------------------------------------------------------


def sort(scope: Scope, x: Tensor, axis: int, descending: bool, result: int) -> Tensor:
    """The element that comes behind as many others; of equal ones the first comes first."""
    below = "gt" if descending else "lt"

    def at(index: Index) -> Real:
        count = plain(x.shape[axis])
        values = [x.at(along(index, axis, place)) for place in range(count)]

        def rank(place: int) -> Real:
            earlier = (
                compare(below if other > place else f"{below[0]}e", values[other], values[place])
                for other in range(count)
                if other != place
            )
            return total_of(earlier)

        return total_of(
            (Whole(place) if result else values[place]) * Zero(rank(place) - Whole(index[axis]))
            for place in range(count)
        )

    return Tensor("i32" if result else x.dtype, x.shape, at)


def arg_max(scope: Scope, x: Tensor, axis: int) -> Tensor:
    kept = tuple(x.shape[each] for each in others((axis,), x.rank))

    def at(index: Index) -> Real:
        places = range(plain(x.shape[axis]))
        values = [x.at((*index[:axis], place, *index[axis:])) for place in places]
        chosen = first_extreme([(value, ONE) for value in values], "gt")
        return total_of([each * Whole(place) for each, place in zip(chosen, places, strict=True)])

    return Tensor("i32", kept, at)


def scatter_extreme(
    scope: Scope, ids: Tensor, updates: Tensor, kind: str, axis: int, size: Size, batch: int
) -> Tensor:
    """The extreme of the updates whose place is said to be this one, and of none an unknown."""
    rows = ids.shape[batch:]

    def at(index: Index) -> Real:
        before, behind = index[:axis], index[axis + 1 :]
        parts = [
            (
                updates.at((*before, *k, *behind)),
                Zero(ids.at((*index[:batch], *k)) - Whole(index[axis])),
            )
            for k in product(*(range(plain(each)) for each in rows))
        ]
        chosen = first_extreme(parts, "gt" if kind == "max" else "lt")
        found = total_of([mark * value for mark, (value, _) in zip(chosen, parts, strict=True)])
        nothing = product_of(*(ONE - counts for _, counts in parts))
        return found + nothing * Element(f"{kind} of no {updates.dtype}")

    shape = (*updates.shape[:axis], size, *updates.shape[axis + len(rows) :])
    return Tensor(updates.dtype, shape, at)


# --- along an axis --------------------------------------------------------------------------------


def cumulative(scope: Scope, x: Tensor, kind: str, axis: int, backward: bool) -> Tensor:
    if kind == "sum":
        return running_sum(scope, x, kind, axis, backward)

    def at(index: Index) -> Real:
        places = range(plain(x.shape[axis]))
        passed = (
            places[plain(index[axis]) :][::-1] if backward else places[: plain(index[axis]) + 1]
        )
        values = [x.at(along(index, axis, place)) for place in passed]
        if kind == "prod":
            return product_of(*values)
        chosen = first_extreme([(each, ONE) for each in values], "gt" if kind == "max" else "lt")
        return total_of([mark * value for mark, value in zip(chosen, values, strict=True)])

    return x.with_elements(at)


def linear_recurrence(scope: Scope, a: Tensor, b: Tensor, axis: int, backward: bool) -> Tensor:
    """The sum over the places passed of b there, times the product of a at those behind it."""
    scope.same_type(a, b)

    def at(index: Index) -> Real:
        places = range(plain(a.shape[axis]))
        passed = (
            places[plain(index[axis]) :][::-1] if backward else places[: plain(index[axis]) + 1]
        )
        result: Real = NOTHING
        for place in passed:
            here = along(index, axis, place)
            result = a.at(here) * result + b.at(here)
        return result

    return a.with_elements(at)


MEANINGS: dict[str, Meaning] = {
    "MaxPool": max_pool,
    "MaxPoolGradient": max_pool_gradient,
    "MaxPoolSelect": max_pool_select,
    "Sort": sort,
    "ArgMax": arg_max,
    "ScatterExtreme": scatter_extreme,
    "Cumulative": cumulative,
    "LinearRecurrence": linear_recurrence,
}
