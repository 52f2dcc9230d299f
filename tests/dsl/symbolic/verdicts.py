"""Verdicts of the prover on random questions, in a line each.

`verdicts.txt` has the verdict on each question, by its seed: the example that refutes it, and the
missing fact that is offered. The questions are quick ones, of which many can be proved. A prover
that has become weaker, or explains itself otherwise, is seen there; that it is never wrong is
judged by all sizes of a grid, in `test_by_force`.

`python -m tests.dsl.symbolic.verdicts` writes the file anew; read the difference before you keep
it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from meganeura_dsl.symbolic.assumptions import Proved, Refuted
from meganeura_dsl.symbolic.conditions import show_condition
from tests.dsl.symbolic.questions import Question, condition_of, question

FILE = Path(__file__).with_suffix(".txt")


def described(lines: Iterable[str]) -> Iterator[str]:
    """Lines of the file as they are now."""
    for line in lines:
        seed = int(line.partition(" ")[0])
        yield f"{seed} {said_of(question(seed))}"


def said_of(asked: Question) -> str:
    """The verdict on a question."""
    known, claim = asked.known(), condition_of(asked.claim)
    match known.decide(claim):
        case Proved():
            return "proved" + (", as the facts contradict" if known.is_contradictory else "")
        case Refuted(example=example):
            found = ", ".join(f"{name}={value}" for name, value in sorted(example.items()))
            verdict = f"refuted by {found}"
        case _:
            verdict = "unknown"
    fact = known.suggest(claim)
    return verdict if fact is None else f"{verdict}; with {show_condition(fact)} it holds"


if __name__ == "__main__":
    FILE.write_text("\n".join(described(FILE.read_text().splitlines())) + "\n")
