"""Random questions, judged by all sizes of a grid; `scripts/prove_by_force.py` asks more."""

import pytest

from meganeura_dsl.limits.work_budget import Budget, within
from meganeura_dsl.symbolic.assumptions import Proved, Refuted, Unknown
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import dim
from tests.dsl.symbolic.questions import Question, fault, question
from tests.effort import effort

MOST_STEPS = 700_000
"""Steps of a question and the facts it rests on: less than 2 s."""


@pytest.mark.parametrize("first", range(0, effort(100, 200), 50))
def test_the_grid_says_nothing_against_an_answer(first: int) -> None:
    for seed in range(effort(1, 50) * first, effort(1, 50) * (first + 50)):
        asked = question(seed)
        wrong = fault(asked, asked.ask())
        assert wrong is None, f"seed {seed}: {wrong}\n{asked}"


@pytest.mark.parametrize("seed", [63, 2239, 100208])
def test_the_hardest_questions_end(seed: int) -> None:
    budget = Budget(10**9)
    with within(budget):
        question(seed).ask()
    assert 50_000 < budget.spent < MOST_STEPS


def test_the_grid_bites() -> None:
    asked = Question({}, (("==", ("%", "h", 2), 0),), (">", "h", 2))
    assert fault(asked, Proved()) == "proved, and false at " + str(
        {"h": 2, "w": 1, "s": 1, "bias": 0, "causal": 0}
    )
    assert fault(asked, Refuted({"h": 2})) is None
    assert fault(asked, Refuted({"h": 1})) == "refuted by sizes that break a fact: {'h': 1}"
    assert fault(asked, Refuted({"h": 4})) == "refuted where it is true: {'h': 4}"
    assert fault(asked, Refuted({"h": 0})) == "refuted by a size below its bound: {'h': 0}"
    assert fault(asked, Unknown()) is None


def test_a_question_is_what_it_says() -> None:
    assert Question({"h": 0}, (), ("<", "h", ("*", 2, "w"))).known().least == {"h": 0}
    assert isinstance(Question({}, (), ("<", "h", ("*", 2, "h"))).ask(), Proved)
    assert Question({}, (), ("<", "h", 3)).ask() == Refuted({"h": 3})
    assert question(5).known().decide(Compare("==", dim("h"), dim("h"))) == Proved()
