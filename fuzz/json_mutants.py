"""Damaged JSON that is JSON still: a value is replaced, removed, or put where another one was."""

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

from fuzz.mutate import NUMBERS, mutate

VALUES: tuple[object, ...] = (
    *NUMBERS, -1, 0.5, -1e300, None, True, "", "x", "fc.weight", "f32[2, 2]", [], {}, [[]], {"": 0},
    "\N{COMBINING ACUTE ACCENT}" * 3,
)  # fmt: skip
"""The replacements of a value."""

Place = tuple[Any, Any]
"""A list or an object, and an index or a key of it."""


def json_mutant(random: Random, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs with one to three values changed; a quarter have bytes changed instead."""
    if random.random() < 0.25:
        return mutate(random, inputs)
    held = {"": json.loads(random.choice(inputs))}
    for _ in range(random.randint(1, 3)):
        places = _places(held)
        of, at = random.choice(places)
        match random.randint(0, 4):
            case 0 if isinstance(of, list):
                del of[at]
            case 0 if of is not held:
                del of[at]
            case 1:
                source, key = random.choice(places)
                of[at] = deepcopy(source[key])
            case 2 if isinstance(of[at], int):
                of[at] += random.choice((-4, -1, 1, 4))
            case 3 if isinstance(of, list):
                of.insert(at, deepcopy(of[at]))
            case _:
                of[at] = deepcopy(random.choice(VALUES))
    return json.dumps(held[""]).encode()


def _places(value: object) -> list[Place]:
    """Every place of a value that holds another."""
    found: list[Place] = []
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else range(len(each))
            found += [(each, key) for key in keys]
            stack += [each[key] for key in keys]
    return found
