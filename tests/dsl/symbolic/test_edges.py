"""Bounds and limits of the prover, to the number."""

from collections.abc import Callable, Mapping
from itertools import product
from math import gcd

import pytest

from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Facts, Or, Proved, Refuted
from meganeura_dsl.symbolic.prover.assume import entails
from meganeura_dsl.symbolic.prover.counterexample import (
    _LARGE,
    _MOST_LARGE,
    _MOST_SMALL,
    Group,
    Search,
    _spread,
)
from meganeura_dsl.symbolic.prover.nonnegativity import is_nonnegative
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Size, dim

c, h, k, n, w = map(dim, "chknw")


def given(*conditions: Condition) -> Facts:
    facts = Facts()
    for condition in conditions:
        facts = facts.assume(condition)
    return facts


HALF = Compare("==", h // 2, w)
AT_LEAST_ONCE = Compare(">=", h, w)
SHARE = Compare("==", h // k, w)
PRODUCT = Compare("==", c * h // k, n * w)
AT_LEAST_BOTH = And((AT_LEAST_ONCE, Compare(">=", h, k)))


@pytest.mark.parametrize(
    ("fact", "goal"),
    [
        (HALF, Compare(">=", h, 2 * w)),
        (HALF, Compare("<", h, 2 * w + 2)),
        (AT_LEAST_ONCE, Compare(">=", h // w, 1)),
        (AT_LEAST_ONCE, Compare(">=", c * (h // w), c)),
        (True, Compare(">=", h // (k - 1), 0)),
        (True, Compare(">=", h // (k - 1) + c, 1)),
        (AT_LEAST_BOTH, Compare(">=", h // w + h // k, 2)),
        (SHARE, Compare(">=", h, w * k)),
        (PRODUCT, Compare(">=", c * h, k * n * w)),
        (SHARE, Compare("<", h, w * k + k)),
        (Compare(">=", h, c * (k - 1)), Compare(">=", h // (k - 1), c)),
        (Compare("<", h, (c + 1) * (k - 1)), Compare("<=", h // (k - 1), c)),
        (Compare(">=", h // (k - 1), c // w), Compare(">=", h, (c // w) * (k - 1))),
        (Compare("<=", h // (k - 1), 7), Compare("<", h, 8 * (k - 1))),
    ],
)
def test_a_bound_is_proved(fact: Condition, goal: Condition) -> None:
    assert given(fact).decide(goal) == Proved()


@pytest.mark.parametrize("divisor", [5, 7, 9])
def test_a_congruence_is_solved(divisor: int) -> None:
    """Of each multiple of a size without a factor of the divisor, and each remainder of it."""
    factors = [factor for factor in range(2, divisor) if gcd(factor, divisor) == 1]
    for factor, rest in product(factors, range(divisor)):
        known = given(Compare("==", factor * h % divisor, rest))
        (right,) = (each for each in range(divisor) if factor * each % divisor == rest)
        for each in range(divisor):
            verdict = known.decide(Compare("==", h % divisor, each))
            assert verdict == Proved() if each == right else isinstance(verdict, Refuted)


@pytest.mark.parametrize(
    ("fact", "goal", "example"),
    [
        (HALF, Compare(">", h, 2 * w), {"h": 2, "w": 1}),
        (HALF, Compare("<", h, 2 * w + 1), {"h": 3, "w": 1}),
        (AT_LEAST_ONCE, Compare(">=", h // w, 2), {"h": 1, "w": 1}),
        (SHARE, Compare(">", h, w * k), {"h": 1, "k": 1, "w": 1}),
        (PRODUCT, Compare(">", c * h, k * n * w), dict.fromkeys("chknw", 1)),
        (Compare("==", 2 * h, 3 * w), Compare("==", (h + w) % 2, 0), {"h": 3, "w": 2}),
        (SHARE, Compare("<", h, w * k + k - 1), {"h": 1, "k": 1, "w": 1}),
        (AT_LEAST_BOTH, Compare(">=", h // w + h // k, 3), {"h": 1, "k": 1, "w": 1}),
        (AT_LEAST_ONCE, Compare(">=", c * (h // w), 2 * c), {"c": 1, "h": 1, "w": 1}),
    ],
)
def test_a_bound_that_is_one_too_sharp_is_refuted(
    fact: Condition, goal: Condition, example: dict[str, int]
) -> None:
    facts = given(fact)
    assert facts.decide(goal) == Refuted(example)
    assert not entails(facts._known, goal), "only the example kept it from being proved"


SIMPLER: Mapping[str, Callable[[], tuple[Size, Size]]] = {
    "below": lambda: (2 // (h + 3), 0),
    "above": lambda: (-3 // (h + 3), -1),
    "above a sum": lambda: (-1 // (h + w), -1),
    "factor": lambda: ((2 * h) // (2 * w - 2 * k), h // (w - k)),
    "remainder": lambda: ((2 * h + 1) // 2, h),
    "factor and size": lambda: ((3 * h * w) // (3 * w), h),
    "factor and remainder": lambda: ((2 * h + 1) // (2 * w), h // w),
    "factor of all": lambda: ((4 * h + 2) // (2 * w), (2 * h + 1) // w),
    "size": lambda: ((h * w) // (k * w), h // k),
    "floor": lambda: ((h // 2 + w) // 3, (h + 2 * w) // 6),
}
"""Sizes made while a test runs, and what they are by form."""


@pytest.mark.parametrize("made", SIMPLER.values(), ids=SIMPLER)
def test_a_quotient_is_simplified_by_form(made: Callable[[], tuple[Size, Size]]) -> None:
    size, form = made()
    assert size == form


def test_a_quotient_that_depends_stays() -> None:
    for size in (3 // (h + 3), (2 * h + 1) // (2 * w - 2 * k), (h * w) // (k + 1)):
        assert not isinstance(size, int)
        assert size.floors()
        assert size != h // (w - k)


def test_what_is_divided_by_zero_is_not_true() -> None:
    facts = given(Compare("==", k, 1))
    assert facts.truth(Compare(">=", h // (k - 1), 0)) is None
    assert facts.truth(Compare("!=", h // (k - 1), w)) is None


@pytest.mark.parametrize(
    ("fact", "goal"),
    [
        (Compare(">=", h // (k - w), -2), Compare(">=", h + 2 * k, 2 * w)),
        (Compare("<=", h // (k - w), -2), Compare("<=", h + k + 1, w)),
    ],
)
def test_a_divisor_that_may_be_negative_bounds_nothing_above_it(
    fact: Condition, goal: Condition
) -> None:
    """Of h == 1 and of h == 2 the fact is true where k - w is -1, and the goal is not."""
    assert not entails(given(fact)._known, goal)


def test_two_alternatives_are_told_apart_in_a_proof_and_no_third() -> None:
    known = given(*(Or((Compare("==", size, 1), Compare("==", size, 2))) for size in (c, h, k)))
    assert entails(known._known, Compare("<=", c * h, 4))
    assert not entails(known._known, Compare("<=", c * h * k, 8))
    assert entails(known._known, Compare("<=", c * h * k, 8), splits=3)


def test_choices_reach_as_far_as_asked_and_are_never_too_few() -> None:
    domain = Facts().domain("n")
    assert domain.choices("n", {}, 30) == [*range(1, 31)]
    assert domain.choices("n", {}, 0) == [1, 2, 3]
    far = given(Compare(">=", dim("n"), 100)).domain("n")
    assert far.choices("n", {}, 4) == [100, 101, 102]


def test_values_are_spread_and_no_more_than_asked_for() -> None:
    assert list(_spread(range(10), 3)) == [0, 4, 8]
    assert list(_spread([1, 2], 5)) == [1, 2]
    assert list(_spread(range(4), 0)) == [0]


@pytest.mark.parametrize("names", ["hw", "hkw", "chkw", "chknw"])
def test_candidates_are_small_then_large_and_no_more_than_allowed(names: str) -> None:
    rows = list(Search(Group((), frozenset(names), frozenset()), SolverState(), {})._rows())
    few = [row for row in product(range(1, 4), repeat=len(names)) if sum(row) <= len(names) + 2]
    assert {*few} == {*rows[: len(few)]}
    small, large = rows[:_MOST_SMALL], rows[_MOST_SMALL:]
    assert small == sorted(small, key=sum)
    assert large == sorted(large, key=sum)
    assert len(large) <= _MOST_LARGE
    if len(names) == 2:
        assert {*large} == {*product((1, *_LARGE), repeat=2)}


def test_facts_that_exclude_each_other_leave_nothing_to_choose() -> None:
    facts = given(Compare("==", h, 2), Compare("==", h, 3))
    assert facts.domain("hw").choices("w", {}, 4) == []


def test_no_size_is_suggested_to_be_one() -> None:
    assert Facts().suggest(Compare("==", h * h * w, h * w)) is None
    assert Facts().suggest(Compare("==", c * (h // k), h // k)) is None


def test_a_floor_is_no_more_than_its_parts_say() -> None:
    above = [h - k - 1, k - 1]
    assert is_nonnegative(h // k - 1, above)
    assert not is_nonnegative(h // k - 2, above)
