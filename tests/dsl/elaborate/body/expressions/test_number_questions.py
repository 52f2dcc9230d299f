"""Proofs about indices hold for small sizes; the script asks for more."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.body.expressions.number_questions import fault, question
from tests.effort import effort

SEEDS_PER_TEST = effort(15, 45)


@pytest.mark.parametrize("first", range(0, effort(15, 1800), SEEDS_PER_TEST))
def test_what_is_proved_of_numbers_holds(first: int) -> None:
    proved = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        asked = question(seed)
        result = pipeline.check(Source("asked.mgn", asked.text), lambda _: None)
        if "Use" in result.proved:
            proved += 1
            assert fault(asked, seed) is None, f"seed {seed}\n{asked.text}"
    assert proved >= effort(1, 2)


def test_a_place_that_is_outside_is_found() -> None:
    """Places that are refused are outside for some sizes, mostly: the grid sees them."""
    asked = [question(seed) for seed in range(180)]
    assert sum(fault(each, 0) is not None for each in asked) > 60
