"""Facts about whole numbers in the iterations of a scan: of slices, and by induction."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.limits.language_limits import CHECK
from meganeura_dsl.limits.work_budget import measured
from meganeura_dsl.pipeline import check
from tests.effort import effort
from tests.folded import each_of

WORD = """\
block Word()(token: i32[n]) -> [n, 6]
    where 0 <= token, token < 6:
  return token |> table: embedding(6, 6)

"""

PLACE = """\
block Place()(x: [n, 6], place: i32[]) -> [n, 6]
    where 0 <= place, place < 6:
  return x + 0.1 * f32(place)

"""

PROVED = {
    "the index for each example": """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k <= 6:
  layer w: Word()
  h = x
  scan t in 0..k:
    h = h + (i32(full([n], t)) |> w)
  return h
""",
    "the index of a scan that begins late": PLACE
    + """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k <= 7:
  layer w: Place()
  h = x
  scan t in 1..k:
    h = h |> w()(t - 1)
  return h
""",
    "the index from the end": PLACE
    + """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k <= 6:
  layer w: Place()
  h = x
  scan t in 0..k:
    h = h |> w()(k - 1 - t)
  return h
""",
    "a slice of an iteration": """\
block Use()(ids: i32[n, s]) -> [n, 6]
    where 0 <= ids, ids < 6:
  layer w: Word()
  h = zeros([n, 6])
  scan t in 0..s:
    h = h + (ids[:, t] |> w)
  return h
""",
    "a slice of what came": """\
block Use()(ids: i32[n, s]) -> [n, 6]:
  layer w: Word()
  h = zeros([n, 6])
  scan t in 0..s:
    h = h + (ids[:, t] |> w)
  return h
""",
    "what an iteration chooses": """\
block Use(steps)(first: i32[n]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  scan _t in 0..steps:
    token = argmax(token |> w, 1)
  return token |> w
""",
    "a number of the configuration": """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k < 6:
  return x + (i32(full([n], k)) |> w: Word)
""",
    "a number": """\
block Use()(x: [n, 6]) -> [n, 6]:
  return x + (i32(full([n], 5)) |> w: Word)
""",
    "one of two carried": """\
block Use(steps)(first: i32[n]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  other = 5 - first
  scan _t in 0..steps:
    old = token
    token = other
    other = old
  return (token |> w) + (other |> w)
""",
    "of a scan that may end": """\
block Use(steps)(first: i32[n], x: [n, 6]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  total = 0.0 * sum(x)
  scan _t in 0..steps while total < 1:
    y = token |> w
    total = total + sum(y)
    token = argmax(y, 1)
  return token |> w
""",
}

REFUSED = {
    "the index of one iteration more": """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k <= 7:
  layer w: Word()
  h = x
  scan t in 0..k:
    h = h + (i32(full([n], t)) |> w)
  return h
""",
    "an index that begins late": """\
block Use(k)(x: [n, 6]) -> [n, 6]
    where k <= 7:
  layer w: Word()
  h = x
  scan t in 1..k:
    h = h + (i32(full([n], t)) |> w)
  return h
""",
    "one more in each iteration": """\
block Use(steps)(first: i32[n]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  h = zeros([n, 6])
  scan _t in 0..steps:
    h = h + (token |> w)
    token = token + 1
  return h
""",
    "one that is lost later": """\
block Use(steps)(first: i32[n]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  other = first
  h = zeros([n, 6])
  scan _t in 0..steps:
    h = h + (token |> w)
    token = other
    other = other + 1
  return h
""",
    "behind the last iteration": """\
block Use(steps)(first: i32[n]) -> [n, 6]
    where 0 <= first, first < 6:
  layer w: Word()
  token = first
  scan _t in 0..steps:
    token = token + 1
  return token |> w
""",
    "a fraction": """\
block Use()(x: [n, 6]) -> [n, 6]:
  return x + (i32(full([n], 5.5)) |> w: Word)
""",
    "a number that is too large": """\
block Use()(x: [n, 6]) -> [n, 6]:
  return x + (i32(full([n], 6)) |> w: Word)
""",
    "a slice of what is too wide": """\
block Use()(ids: i32[n, s]) -> [n, 6]
    where 0 <= ids, ids < 7:
  layer w: Word()
  h = zeros([n, 6])
  scan t in 0..s:
    h = h + (ids[:, t] |> w)
  return h
""",
}


def codes(text: str) -> list[str]:
    return [problem.code for problem in check(Source("net.mgn", text), lambda _: None).problems]


@pytest.mark.parametrize("name", PROVED)
def test_facts_hold_in_all_iterations(name: str) -> None:
    assert codes(WORD + PROVED[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_lost_in_an_iteration_is_not_known(name: str) -> None:
    assert codes(WORD + REFUSED[name]) == ["E0311"]


HALVED = {
    "two ends": """\
block Place(rounds)(x: [n], y: [m]) -> i32[m]
    where 0 <= result, result < n:
  low = i32(zeros([m]))
  high = i32(full([m], n - 1))
  scan _t in 0..rounds:
    middle = (low + high) // 2
    is_above = gather(x, middle) > y
    high = where(is_above, middle, high)
    low = where(is_above, low, middle)
  return low
""",
    "two ends until they meet": """\
block Place(rounds)(x: [n], y: [m]) -> i32[m]
    where 0 <= result, result <= n:
  low = i32(zeros([m]))
  high = i32(full([m], n))
  scan _t in 0..rounds:
    middle = (low + high) // 2
    is_open = low < high
    is_above = gather(x, minimum(middle, n - 1)) > y
    high = where(is_open and is_above, middle, high)
    low = where(is_open and not is_above, minimum(middle + 1, n), low)
  return low
""",
    "three points": """\
block Place(rounds)(y: [m]) -> i32[m]
    where 0 <= result, result <= 1024:
  low = i32(zeros([m]))
  high = i32(full([m], 1024))
  last = i32(full([m], 7))
  scan _t in 0..rounds:
    middle = (low + high) // 2
    next = (low + 2 * high + last) // 4
    is_below = f32(middle) < y
    low = where(is_below, middle, low)
    high = where(is_below, high, next)
    last = where(is_below, last, middle)
  return low
""",
}


@pytest.mark.parametrize("name", HALVED)
def test_ends_that_are_halved_take_a_part_of_the_work_of_a_check(name: str) -> None:
    """In an iteration the bounds of an end are known before those of what both ends give."""
    found, steps = measured(lambda: codes(HALVED[name] + "\nmodel place = Place(5)\n"))
    assert found == []
    assert steps < CHECK / 4


Values = dict[str, int]
Step = tuple[str, Callable[[Values], int]]
"""The change of two whole numbers in an iteration, as a text, and its value."""


def a_step(draw: np.random.Generator, depth: int) -> Step:
    if depth == 0:
        c = int(draw.integers(0, 4))
        atoms: tuple[Step, ...] = (
            ("old", lambda of: of["a"]),
            ("b", lambda of: of["b"]),
            (f"(0 * b + {c})", lambda _: c),
        )
        return atoms[int(draw.integers(3))]
    (one, first), (two, second) = a_step(draw, depth - 1), a_step(draw, depth - 1)
    c = int(draw.integers(1, 4))
    steps: tuple[Step, ...] = (
        (f"minimum({one}, limit - 1)", lambda of: min(first(of), of["limit"] - 1)),
        (f"minimum({one}, {two})", lambda of: min(first(of), second(of))),
        (f"maximum({one}, {two})", lambda of: max(first(of), second(of))),
        (f"maximum({one} - {c}, 0)", lambda of: max(first(of) - c, 0)),
        (f"({one} + {c})", lambda of: first(of) + c),
        (f"({one} // {c})", lambda of: first(of) // c),
        (f"({one} % {c})", lambda of: first(of) % c),
        (f"({one} + {two})", lambda of: first(of) + second(of)),
        (f"({one} - {two})", lambda of: first(of) - second(of)),
    )
    return steps[int(draw.integers(9))]


HEADER = """\
block Row(limit)(row: i32[n]) -> [n, 2]
    where 0 <= row, row < limit:
  return row |> table: embedding(limit, 2)

block Use(limit)(p: i32[n], q: i32[n], x: [s, n]) -> [n, 2]
    where 0 <= p, p < limit, 0 <= q, q < limit:
  layer w: Row(limit)
  a = minimum(p, limit - 1)
  b = minimum(q, limit - 1)
  h = zeros([n, 2])
  scan t in 0..s:
    h = h + (a |> w) + (b |> w) + 0 * sum(x[t])
"""


@each_of("seed", range(effort(8, 2000)))
def test_what_is_proved_of_all_iterations_is_so_in_each(seed: int) -> None:
    """Of two numbers that are carried, against all starts below small limits."""
    draw = np.random.default_rng(seed)
    (one, first), (two, second) = a_step(draw, 2), a_step(draw, 2)
    text = f"{HEADER}    old = a\n    a = {one}\n    b = {two}\n"
    found = codes(text + "  return h + f32(sum(0 * (a + b)))\n")
    assert set(found) <= {"E0207", "E0311"}, (text, found)
    if "E0311" in found:
        return
    for limit in range(1, 6):
        for a in range(limit):
            for b in range(limit):
                now = {"a": a, "b": b, "limit": limit}
                for _ in range(6):
                    assert 0 <= now["a"] < limit, text
                    assert 0 <= now["b"] < limit, text
                    now = {"a": first(now), "b": second(now), "limit": limit}
