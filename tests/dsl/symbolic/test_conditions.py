"""Conditions: their text, their opposites and their truth for given sizes."""

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
from meganeura_dsl.symbolic.conditions import holds
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
