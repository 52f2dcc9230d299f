"""Conditions: their text, their opposites and their truth for given sizes."""

import re

import pytest

from meganeura_dsl.symbolic.assumptions import (
    And,
    Compare,
    Condition,
    Flag,
    Not,
    Or,
    negate,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import (
    flags_in,
    holds,
    sizes_in,
    with_differing,
    with_sizes,
)
from meganeura_dsl.symbolic.size import dim

d, h, n, w = map(dim, "dhnw")

BIAS = Flag("bias")
ONE = Compare("==", h, w + 1)
TWO = Compare("==", d % n, 0)

TEXTS = [
    (True, "true", "false"),
    (BIAS, "bias", "not bias"),
    (Not(BIAS), "not bias", "bias"),
    (ONE, "h == w + 1", "h != w + 1"),
    (TWO, "d % n == 0", "d % n != 0"),
    (Compare("<", h, w), "h < w", "h >= w"),
    (Compare("<=", h, w), "h <= w", "h > w"),
    (And((ONE, BIAS)), "h == w + 1 and bias", "h != w + 1 or not bias"),
    (Or((ONE, BIAS)), "h == w + 1 or bias", "h != w + 1 and not bias"),
    (And((Or((ONE, BIAS)), TWO)), "(h == w + 1 or bias) and d % n == 0", None),
    (Not(Or((ONE, BIAS))), "not (h == w + 1 or bias)", "h == w + 1 or bias"),
    (And((ONE,)), "h == w + 1", "h != w + 1"),
    (And((And((ONE,)), BIAS)), "h == w + 1 and bias", "h != w + 1 or not bias"),
    (Or((And(()), BIAS)), "true or bias", "false and not bias"),
    (And(()), "true", "false"),
    (Or(()), "false", "true"),
]


@pytest.mark.parametrize(("condition", "text", "opposite"), TEXTS)
def test_text(condition: Condition, text: str, opposite: str | None) -> None:
    assert show_condition(condition) == text
    if opposite is not None:
        assert show_condition(negate(condition)) == opposite


@pytest.mark.parametrize("condition", [condition for condition, *_ in TEXTS])
def test_a_condition_or_its_opposite_holds(condition: Condition) -> None:
    for sizes in ({"h": 3, "w": 2, "d": 6, "n": 4}, {"h": 2, "w": 2, "d": 6, "n": 3}):
        for bias in (False, True):
            values = sizes | {"bias": bias}
            assert holds(condition, values) is not holds(negate(condition), values)


def test_names_are_shown_as_they_are_written() -> None:
    assert show_condition(Compare("<", dim("Width"), dim("N"))) == "Width < N"
    assert show_condition(Not(Flag("useBias"))) == "not useBias"


def test_a_comparison_holds_or_not() -> None:
    values = {"h": 3, "w": 2}
    assert [holds(Compare(operator, h, w), values) for operator in ("==", "!=", "<", "<=")] == [
        False,
        True,
        False,
        False,
    ]
    assert holds(Compare(">", h, w), values)
    assert holds(Compare(">=", h, 3), values)
    with pytest.raises(ZeroDivisionError):
        holds(Compare("==", h // (w - 2), 1), values)


SAME = Compare("==", h, w)
APART = Compare("!=", h, w)


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        (SAME, False),
        (APART, True),
        (Compare("==", h, h), Compare("==", h, h)),
        (Compare("<", h, w), Compare("<", h, w)),
        *((Compare("==", h, other), None) for other in (w + 1, 2 * w, h * w, w * w, w // 2, d, 7)),
        (Compare("==", d, w), None),
        (BIAS, None),
        (Not(SAME), True),
        (And((APART, TWO)), TWO),
        (And((SAME, TWO)), False),
        (And((APART, APART)), And(())),
        (And((APART, TWO, BIAS)), And((TWO, BIAS))),
        (Or((SAME, TWO)), TWO),
        (Or((APART, TWO)), True),
        (Or((SAME, SAME)), Or(())),
        (Or((TWO, SAME, BIAS)), Or((TWO, BIAS))),
        (And((True, TWO)), TWO),
        (Or((And((SAME, BIAS)), Not(And((APART, TWO))))), Compare("!=", d % n, 0)),
    ],
    ids=str,
)
def test_of_variables_that_differ_no_two_are_equal(
    condition: Condition, known: Condition | None
) -> None:
    """Comparisons of anything but two of the variables stay as they are."""
    made = with_differing(condition, frozenset("hw"))
    assert made == (condition if known is None else known)


@pytest.mark.parametrize(("condition", "text"), [(each, text) for each, text, _ in TEXTS])
def test_sizes_and_flags_are_those_of_the_text(condition: Condition, text: str) -> None:
    assert sizes_in(condition) == set(re.findall(r"\b[dhnw]\b", text))
    assert flags_in(condition) == ({"bias"} if "bias" in text else set())


@pytest.mark.parametrize("condition", [condition for condition, *_ in TEXTS])
def test_sizes_are_replaced_all_at_once(condition: Condition) -> None:
    """Two names change places, and others are replaced by what has them."""
    changes = {"h": w, "w": h, "d": d + 2 * n, "n": n}
    changed = with_sizes(condition, changes)
    for values in ({"h": 3, "w": 2, "d": 6, "n": 4}, {"h": 2, "w": 3, "d": 5, "n": 5}):
        for bias in (False, True):
            before = {"h": values["w"], "w": values["h"], "n": values["n"]}
            before["d"] = values["d"] + 2 * values["n"]
            assert holds(changed, values | {"bias": bias}) is holds(
                condition, before | {"bias": bias}
            )
    assert flags_in(changed) == flags_in(condition)
