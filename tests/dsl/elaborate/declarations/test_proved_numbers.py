"""Whatever is proved of a whole number holds of all: expressions at random, tried on all values."""

from collections.abc import Callable, Mapping
from itertools import product
from random import Random

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.effort import effort

PICK = """\
block Pick(words)(x: [words, d], i: i32[]) -> [d] where 0 <= i, i < words:
  return x[i]

"""
USE = """\
block Use{number}(words)(x: [words, d], p: i32[], q: i32[], ids: i32[n], r: i32[]) -> [d]
    where words >= 2, n >= 1{where}:
  return Pick(words)(x, {given}) + 0 * (f32(p + q + r + ids[0]) + x[0, 0])

"""
BLOCKS = 12
"""Of a program."""

Values = Mapping[str, int]
Meaning = Callable[[Values], int]
Expression = tuple[str, Meaning]

STATED: dict[str, Callable[[Values], bool]] = {
    "p < words": lambda v: 0 <= v["p"] < v["words"],
    "p + 1 < words": lambda v: v["p"] >= 0 and v["p"] + 1 < v["words"],
    "1 <= p, p <= words": lambda v: 1 <= v["p"] <= v["words"],
    "q < words": lambda v: 0 <= v["q"] < v["words"],
    "1 <= q, q < words": lambda v: 1 <= v["q"] < v["words"],
    "2 * q < words": lambda v: v["q"] >= 0 and 2 * v["q"] < v["words"],
    "q <= p": lambda v: 0 <= v["q"] <= v["p"],
    "ids < words": lambda v: 0 <= v["ids"] < v["words"],
    "ids <= words": lambda v: 0 <= v["ids"] <= v["words"],
    "words >= 4": lambda v: v["words"] >= 4,
}
"""Clauses of `where` and their meaning; none is about `r`."""

LEAVES: tuple[Expression, ...] = (
    ("p", lambda v: v["p"]),
    ("q", lambda v: v["q"]),
    ("ids[0]", lambda v: v["ids"]),
    ("r", lambda v: v["r"]),
    ("argmax(x[:, 0], 0)", lambda v: v["least"]),
)


def expression(random: Random, depth: int) -> Expression:
    """An expression of whole numbers, and what it is."""
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)
    text, of = expression(random, depth - 1)
    number = random.randint(1, 3)
    match random.randrange(11):
        case 0:
            return f"({text} + {number})", lambda v: of(v) + number
        case 1:
            return f"({text} - {number})", lambda v: of(v) - number
        case 2:
            return f"({text} // {number})", lambda v: of(v) // number
        case 3:
            return f"({text} % words)", lambda v: of(v) % v["words"]
        case 4:
            return f"minimum({text}, words - {number})", lambda v: min(of(v), v["words"] - number)
        case 5:
            return f"maximum({text}, {number - 1})", lambda v: max(of(v), number - 1)
        case 6:
            return f"(words - {number} - {text})", lambda v: v["words"] - number - of(v)
        case _:
            return _pair(random, (text, of), expression(random, depth - 1))


def _pair(random: Random, left: Expression, right: Expression) -> Expression:
    (a, of), (b, other) = left, right
    match random.randrange(4):
        case 0:
            return f"maximum({a}, {b})", lambda v: max(of(v), other(v))
        case 1:
            return f"minimum({a}, {b})", lambda v: min(of(v), other(v))
        case 2:
            chosen = f"where(x[0, 0] > 0, {a}, {b})"
            return chosen, lambda v: of(v) if v["is_above"] else other(v)
        case _:
            end = random.choice(("0", "1"))
            joined = f"concat(expand({a}, [] -> [1]), expand({b}, [] -> [1]), axis=0)[{end}]"
            return joined, of if end == "0" else other


def trials() -> list[dict[str, int]]:
    """All small values of what an expression may speak of."""
    names = ("words", "p", "q", "ids", "r", "least", "is_above")
    ranges = (range(2, 6), range(6), range(6), range(6), (-1, 0, 9), range(5), (0, 1))
    every = product(*ranges)
    found = [dict[str, int](zip(names, each, strict=True)) for each in every]
    return [each for each in found if each["least"] < each["words"]]


TRIALS = trials()


@pytest.mark.parametrize("seed", range(effort(2, 60)))
def test_what_is_proved_of_a_number_holds_of_all(seed: int) -> None:
    random = Random(seed)
    cases: dict[str, tuple[str, list[str], Meaning]] = {}
    text = PICK
    for number in range(BLOCKS):
        stated = random.sample([*STATED], random.randint(1, 5))
        given, meaning = expression(random, random.randint(1, 3))
        where = "".join(f", {each}" for each in stated)
        text += USE.format(number=number, where=where, given=given)
        cases[f"Use{number}"] = given, stated, meaning
    result = pipeline.check(Source("facts.mgn", text), lambda _: None)
    assert {each.code for each in result.reports} <= {"E0207", "E0311", "E0312", "E0404"}
    proved = [name for name in result.proved if name in cases]
    assert 2 <= len(proved) < BLOCKS
    for name in proved:
        given, stated, meaning = cases[name]
        for values in TRIALS:
            if all(STATED[each](values) for each in stated):
                assert 0 <= meaning(values) < values["words"], (given, stated, values)
