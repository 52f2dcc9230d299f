"""Index arithmetic: what is simplified still counts the same."""

from collections.abc import Mapping
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    WORD,
    Affine,
    Atom,
    Axis,
    BoundsCheck,
    Inside,
    Loaded,
    Quotient,
    Remainder,
    affine,
    bounds,
    divide,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions

AXES = (Axis("i", 4), Axis("j", 3), Axis("k", 6))
FOUR = variable(AXES[0])
LOADED = variable(Loaded(Expressions().load(0, Affine(0), DType.I32)))
FAR = variable(Axis("far", WORD - 1))


def count(index: Affine, at: Mapping[str, int]) -> int:
    """The value of an index where the variables have these values."""
    return index.constant + sum(factor * count_atom(atom, at) for atom, factor in index.terms)


def count_atom(atom: Atom, at: Mapping[str, int]) -> int:
    match atom:
        case Axis(name, _):
            return at[name]
        case Quotient(numerator, divisor):
            return count(numerator, at) // divisor
        case Remainder(numerator, divisor):
            return count(numerator, at) % divisor
        case Inside(guard):
            return count(guard.position, at) // guard.step if holds(guard, at) else 0
        case Loaded():
            raise TypeError("nothing is loaded here")


def holds(guard: BoundsCheck, at: Mapping[str, int]) -> bool:
    position = count(guard.position, at) % WORD
    return position % guard.step == 0 and position // guard.step < guard.size


def places() -> list[dict[str, int]]:
    names = [axis.name for axis in AXES]
    return [dict(zip(names, at, strict=True)) for at in product(*(range(a.size) for a in AXES))]


@st.composite
def indices(draw: st.DrawFn, least: int = -30) -> Affine:
    terms = [(axis, draw(st.integers(-12, 12))) for axis in AXES]
    index = affine(draw(st.integers(-20, 20)), terms)
    if draw(st.booleans()):
        index = index + divide(never_negative(index), draw(st.integers(1, 9)))[1] * draw(
            st.integers(-6, 6)
        )
    return index if least < 0 else never_negative(index)


def never_negative(index: Affine) -> Affine:
    return index - min(bounds(index)[0], 0)


@given(indices(least=0), st.integers(1, 30))
def test_division_is_floor_division(index: Affine, divisor: int) -> None:
    quotient, remainder = divide(index, divisor)
    for at in places():
        assert divmod(count(index, at), divisor) == (count(quotient, at), count(remainder, at))


@given(indices(), indices(), st.integers(-5, 5))
def test_sums_and_multiples(a: Affine, b: Affine, factor: int) -> None:
    for at in places():
        assert count(a + b * factor, at) == count(a, at) + count(b, at) * factor
        assert count(a - b, at) == count(a, at) - count(b, at)


@given(indices())
def test_no_value_is_out_of_bounds(index: Affine) -> None:
    low, high = bounds(index)
    assert all(low <= count(index, at) <= high for at in places())


@given(indices(), st.integers(1, 3), st.integers(1, 20))
def test_a_guard_that_always_or_never_holds_knows_it(index: Affine, step: int, size: int) -> None:
    guard = BoundsCheck(index, step, size)
    held = [holds(guard, at) for at in places()]
    assert not guard.always_holds or all(held)
    assert not guard.never_holds or not any(held)
    for at in places():
        if holds(guard, at):
            assert count(guard.index, at) == count(index, at) // step
        else:
            assert 0 <= count(guard.index, at) < size


@pytest.mark.parametrize(
    ("position", "step", "size", "always", "never"),
    [
        (FOUR, 1, 4, True, False),
        (FOUR, 1, 3, False, False),
        (FOUR + 1, 1, 4, False, False),
        (FOUR - 1, 1, 4, False, False),
        (FOUR - 3, 1, 4, False, False),
        (FOUR - 4, 1, 4, False, True),
        (FOUR + 3, 1, 4, False, False),
        (FOUR + 4, 1, 4, False, True),
        (FOUR, 2, 4, False, False),  # odd positions are between two
        (FOUR + 7, 2, 4, False, False),
        (FOUR + 8, 2, 4, False, True),
        (LOADED, 1, WORD, True, False),
        (LOADED + 1, 1, 1, False, False),  # -1 + 1 is 0
        (FAR + 1, 1, 1, False, True),
    ],
)
def test_what_a_guard_knows_of_all_positions(
    position: Affine, step: int, size: int, *, always: bool, never: bool
) -> None:
    guard = BoundsCheck(position, step, size)
    assert (guard.always_holds, guard.never_holds) == (always, never)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (FOUR * 3 - variable(AXES[1]) * 2 + 5, (5 - 2 * 2, 5 + 3 * 3)),
        (variable(Quotient(FOUR * 5 + 7, 4)), (1, 5)),
        (variable(Quotient(FOUR - 3, 2)), (0, 0)),  # a numerator is never negative
        (variable(Quotient(FOUR * 3 - 3, 2)), (0, 3)),
        (variable(Remainder(FOUR * 5, 7)), (0, 6)),
        (variable(Inside(BoundsCheck(FOUR * 2, 2, 3))), (0, 2)),
        (LOADED * 2 + 1, (1, 2 * WORD - 1)),
    ],
)
def test_the_least_and_the_greatest_value(index: Affine, expected: tuple[int, int]) -> None:
    assert bounds(index) == expected


@given(st.lists(st.integers(1, 6), max_size=5))
def test_an_element_found_by_position_lies_at_that_position(shape: list[int]) -> None:
    position = variable(Axis("i", prod(shape))) if prod(shape) > 1 else Affine(0)
    assert ravel(unravel(position, shape), shape) == position


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_position_found_by_element_has_that_element(shape: list[int]) -> None:
    index = tuple(variable(Axis(f"a{at}", size)) for at, size in enumerate(shape))
    assert [bounds(one) for one in unravel(ravel(index, shape), shape)] == [
        (0, size - 1) for size in shape
    ]


def test_neighbours_in_rows_of_four_need_no_division_of_their_own() -> None:
    tile = variable(Axis("t", 10)) * 4
    for place in range(4):
        row, column = unravel(tile + place, (5, 8))
        assert row == variable(Quotient(variable(Axis("t", 10)), 2))
        assert column - place == variable(Remainder(variable(Axis("t", 10)), 2)) * 4


@pytest.mark.parametrize("outer", [2, 3, 5])
def test_a_division_of_a_division_is_one(outer: int) -> None:
    index = variable(Axis("i", 100))
    assert (index // 4) // outer == index // (4 * outer)
    assert (index % 60) // 4 == (index // 4) % 15
    assert (index % 60) % 12 == index % 12


def test_terms_have_one_order_whatever_they_are() -> None:
    """Equal indices are equal: a sum does not remember in which order it was formed."""
    i, j = (Affine(0, ((Axis(name, 64), 1),)) for name in "ij")
    quotients, remainders = zip(*(divide(index, 4) for index in (i, j)), strict=True)
    terms = [i, j, *quotients, *remainders]
    for first, second in product(terms, repeat=2):
        assert first + second == second + first
