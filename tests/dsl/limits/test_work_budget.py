"""Budgets of steps: what is taken of them, to the step, and what counts where they nest."""

from collections.abc import Callable

import pytest

from meganeura_dsl.limits.language_limits import MOST_TERMS, MOST_VALUES, VALUE
from meganeura_dsl.limits.work_budget import (
    Budget,
    OutOfWorkError,
    apart,
    at_most,
    measured,
    require_terms,
    require_values,
    spend,
    steps_left,
    within,
)


def test_the_last_step_of_a_budget_may_be_taken() -> None:
    budget = Budget(3)
    with within(budget):
        spend(2)
        spend(1)
    assert (budget.spent, budget.left, budget.is_spent) == (3, 0, False)
    with pytest.raises(OutOfWorkError, match="more steps than a check may take"), within(budget):
        spend(1)
    assert (budget.spent, budget.is_spent) == (4, True)


def test_what_is_spent_inside_counts_outside() -> None:
    outer, inner = Budget(10), Budget(100)
    with within(outer):
        spend(1)
        with within(inner):
            spend(4)
        spend(5)
    assert (outer.left, inner.left) == (0, 96)


def test_an_inner_budget_ends_where_the_outer_one_does() -> None:
    outer, inner = Budget(10), Budget(100)
    taken: list[int] = []

    def take() -> None:
        spend(8)
        with within(inner):
            for steps in (2, 1, 1):
                spend(steps)
                taken.append(steps)

    with pytest.raises(OutOfWorkError), within(outer):
        take()
    assert taken == [2]
    assert (outer.left, inner.left) == (-1, 97)


def test_an_inner_budget_that_is_spent_leaves_the_outer_one() -> None:
    outer = Budget(10)
    with within(outer):
        with pytest.raises(OutOfWorkError), at_most(3):
            spend(4)
        spend(6)
    assert outer.left == 0


def test_what_is_left_is_that_of_the_budget_around() -> None:
    assert steps_left() is None
    with at_most(10):
        spend(3)
        with at_most(100):
            assert steps_left() == 7
        with at_most(5):
            spend(4)
            assert steps_left() == 1
        with apart(50):
            assert steps_left() == 50
        assert steps_left() == 3
    assert steps_left() is None


def test_what_is_done_apart_counts_nowhere_else() -> None:
    outer = Budget(10)
    with within(outer):
        with apart(50):
            spend(50)
        with pytest.raises(OutOfWorkError), apart(50):
            spend(51)
        spend(10)
    assert outer.left == 0


def test_a_measured_action_is_left_to_the_caller_to_count() -> None:
    outer = Budget(10)
    assert measured(lambda: spend(10**6)) == (None, 10**6), "there is no budget"
    with within(outer):
        assert measured(lambda: spend(10)) == (None, 10)
        with pytest.raises(OutOfWorkError):
            measured(lambda: spend(11))
    assert outer.left == 10


@pytest.mark.parametrize(
    ("require", "most", "told"),
    [
        (require_terms, MOST_TERMS, "a size of more than 1,000 terms"),
        (lambda count: require_values(count - 1), MOST_VALUES, "a graph of more than 100,000"),
        (lambda count: require_values(count - 7, 7), MOST_VALUES, "a graph of more than 100,000"),
    ],
)
def test_a_size_or_graph_is_too_large_where_work_is_counted(
    require: Callable[[int], None], most: int, told: str
) -> None:
    """To the number; without a budget, also where steps are measured, there is no limit."""
    require(most + 1)
    measured(lambda: require(most + 1))
    with at_most(10**6):
        require(most)
        with pytest.raises(OutOfWorkError, match=told) as caught:
            require(most + 1)
        assert caught.value.reason == str(caught.value)


def test_values_of_a_graph_take_steps_each() -> None:
    budget = Budget(10**6)
    with within(budget):
        require_values(5)
        require_values(5, 3)
    assert budget.spent == 4 * VALUE
