"""One text for each seed: a random program, or a mutant of one or of a standard program."""

from functools import cache
from random import Random

from meganeura_dsl.resources import standard_models
from tests.properties.mutants import mutant
from tests.properties.programs import program

MUTANTS = 0.4
"""The share of mutants among the texts; the others are meant to be well typed."""
STANDARD = 0.05
"""The share of standard programs among the mutants."""


@cache
def standard_texts() -> tuple[str, ...]:
    """The standard programs, whole."""
    files = sorted((each.name, each) for each in standard_models().iterdir())
    return tuple(file.read_text(encoding="utf-8") for name, file in files if name.endswith(".mgn"))


def is_mutant(seed: int) -> bool:
    """True if the text of a seed was changed, so that it may mean anything."""
    return Random(seed).random() <= MUTANTS


def candidate(seed: int) -> str:
    """The text of a seed."""
    random = Random(seed)
    if random.random() > MUTANTS:
        return program(random)
    original = random.choice(standard_texts()) if random.random() < STANDARD else program(random)
    return mutant(random, original)
