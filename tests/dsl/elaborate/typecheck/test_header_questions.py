"""Proofs of signatures with choices hold for small sizes; the script asks for more."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.typecheck.header_questions import fault, question
from tests.effort import effort

SEEDS_PER_TEST = 12
PLACES = 300


@pytest.mark.parametrize("first", range(0, effort(12, 24), SEEDS_PER_TEST))
def test_what_is_proved_of_signatures_holds(first: int) -> None:
    proved: set[tuple[int, str]] = set()
    first, count = effort(1, 84) * first, effort(1, 84) * SEEDS_PER_TEST
    for seed in range(first, first + count):
        asked = question(seed)
        result = pipeline.check(Source("asked.mgn", asked.text), lambda _: None)
        proved.update((seed, name) for name in result.proved)
        wrong = fault(asked, frozenset(result.proved), PLACES)
        assert wrong is None, f"seed {seed}: {wrong}\n{asked.text}"
    names = [name for _, name in proved]
    assert min(names.count("Use"), names.count("Outer"), names.count("Fits")) >= count // 20


def test_what_does_not_hold_is_found() -> None:
    """Of blocks that are not proved, most do not hold for some small sizes: the grid sees them."""
    every = frozenset(["Use", "Outer", "Fits"])
    assert sum(fault(question(seed), every, PLACES) is not None for seed in range(48)) > 24
