"""Certificates of one question each, spoilt ones, and what a grid of sizes says of them.

The grid is computed with NumPy from the JSON, so that no code of the checker judges the checker.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

Json = Any
Path = tuple[Any, ...]
Column = np.ndarray
"""The values of a size or a condition, one for each place of the grid."""
WORDS = {
    "==": ">=", ">=": ">", "<=": "<", "<": "<=", ">": ">=", "!=": "==", "and": "or", "or": "and",
    "+": "*", "*": "+", "//": "*", "low": "high", "high": "low", "tree": "divisor",
    "divisor": "tree",
}  # fmt: skip
MOST_PLACES = 100_000
FLAGS = np.array([0, 1])


def single(certificate: Json, number: int) -> Json:
    """A certificate of one question of another, with the contexts that it stands in."""
    question = dict(certificate["questions"][number])
    chain: list[Json] = []
    place = question["in"]
    while place is not None:
        chain.append(certificate["contexts"][place])
        place = chain[-1].get("in")
    contexts = [dict(each) for each in reversed(chain)]
    for place, each in enumerate(contexts[1:]):
        each["in"] = place
    question["in"] = len(contexts) - 1
    return json.loads(json.dumps({**certificate, "contexts": contexts, "questions": [question]}))


def spoil(certificate: Json, random: Random) -> None:
    """Change one thing of a certificate: a number, a word, the order, or leave something out."""
    parts = [*certificate["contexts"], *certificate["questions"]]
    places = [(part, path, value) for part in parts for path, value in _places(part)]
    places = [each for each in places if each[1][0] not in ("text", "at")]
    for _ in range(50):
        part, path, value = random.choice(places)
        for key in path[:-1]:
            part = part[key]
        key = path[-1]
        kind = random.random()
        if kind < 0.15:  # something of the same kind from elsewhere
            others = [other for _, _, other in places if type(other) is type(value)]
            part[key] = json.loads(json.dumps(random.choice(others)))
        elif isinstance(value, bool):
            part[key] = not value
        elif isinstance(value, int):
            part[key] = random.choice([value - 2, value - 1, value + 1, value + 2, -value - 1])
        elif isinstance(value, str):
            names = sorted(names_of([parts]) - {value})
            part[key] = WORDS.get(value) or (random.choice(names) if names else value)
        elif isinstance(key, int) and kind < 0.6:
            del part[key]
        elif isinstance(value, list) and len(value) > 1:
            first, second = random.sample(range(len(value)), 2)
            value[first], value[second] = value[second], value[first]
        else:
            continue
        return


def is_false(certificate: Json) -> bool:
    """Returns True if small sizes satisfy all facts of a single question, and not its claim."""
    (question,) = certificate["questions"]
    contexts, place, facts = certificate["contexts"], question["in"], []
    while True:
        facts += contexts[place]["facts"]
        if contexts[place].get("in") is None:
            break
        place = contexts[place]["in"]
    least = contexts[place]["least"]
    conditions = [*facts, question["claim"]]
    names, flags = sorted(names_of(conditions)), sorted(_flags_of(conditions))
    counts = {0: 1, 1: 200, 2: 40, 3: 14, 4: 7, 5: 5}
    count = counts.get(len(names), max(2, int(MOST_PLACES ** (1 / len(names))) if names else 1))
    axes = [np.arange(count) + least.get(name, 1) for name in names] + [FLAGS] * len(flags)
    rows = np.meshgrid(*axes, indexing="ij") if axes else []
    grid = {
        name: row.ravel().astype(object) for name, row in zip([*names, *flags], rows, strict=True)
    }
    width = len(next(iter(grid.values()))) if grid else 1
    defined = np.ones(width, bool)
    true = [_holds(each, grid, defined, width) for each in conditions]
    return bool((np.logical_and.reduce(true[:-1]) & ~true[-1] & defined).any())


def names_of(data: Json) -> set[str]:
    """The names of sizes in conditions."""
    match data:
        case str():
            return {data}
        case ["flag", _]:
            return set()
        case [str(), *parts] | [*parts]:
            return set[str]().union(*map(names_of, parts))
        case dict():
            return set[str]().union(*(names_of(data.get(key, [])) for key in ("facts", "claim")))
        case _:
            return set()


def _flags_of(data: Json) -> set[str]:
    match data:
        case ["flag", str(name)]:
            return {f"flag {name}"}
        case [*parts]:
            return set[str]().union(*map(_flags_of, parts))
        case _:
            return set()


def _holds(condition: Json, grid: dict[str, Column], defined: Column, width: int) -> Column:
    match condition:
        case bool():
            return np.full(width, condition)
        case ["flag", name]:
            return grid[f"flag {name}"].astype(bool)
        case ["not", part]:
            return ~_holds(part, grid, defined, width)
        case ["and", *parts]:
            each = [_holds(part, grid, defined, width) for part in parts]
            return np.logical_and.reduce([np.ones(width, bool), *each])
        case ["or", *parts]:
            each = [_holds(part, grid, defined, width) for part in parts]
            return np.logical_or.reduce([np.zeros(width, bool), *each])
        case [sign, left, right]:
            gap = _value(left, grid, defined, width) - _value(right, grid, defined, width)
            signs = np.array([(each > 0) - (each < 0) for each in gap], int)
            tests = {"==": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
            return np.isin(signs, tests[sign])
        case _:
            raise ValueError(condition)


def _value(size: Json, grid: dict[str, Column], defined: Column, width: int) -> Column:
    match size:
        case int():
            return np.full(width, size, object)
        case str():
            return grid[size]
        case ["+", *parts]:
            return sum(
                (_value(each, grid, defined, width) for each in parts), np.full(width, 0, object)
            )
        case ["*", *parts]:
            total = np.full(width, 1, object)
            for each in parts:
                total = total * _value(each, grid, defined, width)
            return total
        case ["//", above, below]:
            divisor = _value(below, grid, defined, width)
            is_zero = divisor == 0
            defined &= ~is_zero.astype(bool)
            return _value(above, grid, defined, width) // np.where(is_zero, 1, divisor)
        case _:
            raise ValueError(size)


def _places(node: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(pairs):
        yield (*path, key), value
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))
