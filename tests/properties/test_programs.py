"""Random programs and mutants: what is promised of every text holds for these.

`scripts/random_programs.py` goes on where this ends.
"""

from random import Random

import pytest

from tests.effort import effort
from tests.properties.candidates import candidate, is_mutant
from tests.properties.mutants import mutant
from tests.properties.programs import program
from tests.properties.soundness import Outcome, examine

SEEDS_PER_TEST = 15


@pytest.mark.parametrize("first", range(0, effort(30, 1200), SEEDS_PER_TEST))
def test_texts(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        text = candidate(seed)
        try:
            examine(text, Random(seed), is_mutant=is_mutant(seed))
        except Exception as error:
            error.add_note(f"seed {seed}\n{text}")
            raise


def test_most_programs_are_accepted_and_most_mutants_are_not() -> None:
    share = effort(2, 1)
    programs = [examine(program(Random(seed)), Random(seed)) for seed in range(20 // share)]
    mutants = [
        examine(mutant(Random(seed), program(Random(seed))), Random(seed), is_mutant=True)
        for seed in range(30)
    ]
    assert sum(each.outcome is Outcome.ACCEPTED for each in programs) > 12 / share
    assert sum(each.runs for each in programs) > 24 / share
    assert sum(each.slopes for each in programs) > 24 / share
    assert 2 < sum(each.outcome is Outcome.ACCEPTED for each in mutants) < 26


def test_a_step_with_more_numbers_than_memory_is_not_made() -> None:
    """A layer of a metric alone may be as wide as a mutant likes."""
    text = (
        "block Deep(hidden)(x: [n, 3]) -> [n, 3]:\n"
        "  return x |> fc1: linear(hidden) |> fc2: linear(3)\n\n"
        "train fit(x: [batch, 3]):\n  layer one: Deep(2)\n"
        "  minimize mean(x |> one)\n  metric wide = mean(x |> other: Deep({}))\n"
    )
    small, large = (examine(text.format(hidden), Random(0)) for hidden in (4, 2**32))
    assert small.slopes > 0
    assert (large.outcome, large.slopes) == (Outcome.ACCEPTED, 0)
