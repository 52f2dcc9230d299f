"""Examples and hints: what a message can say when a condition is not always true."""

import pytest

from meganeura_dsl.symbolic.assumptions import (
    And,
    Compare,
    Condition,
    Facts,
    Flag,
    Not,
    Or,
    Proved,
    Refuted,
    Unknown,
)
from meganeura_dsl.symbolic.conditions import show_condition
from meganeura_dsl.symbolic.size import dim

a, b, c, d, h, k, n, p, s, t, w = map(dim, "abcdhknpstw")
c_in, heads, positions, stride = map(dim, ("c_in", "heads", "positions", "stride"))


def given(*conditions: Condition) -> Facts:
    facts = Facts()
    for condition in conditions:
        facts = facts.assume(condition)
    return facts


def test_examples_satisfy_the_facts_they_touch() -> None:
    facts = given(
        Compare("==", c_in, c),
        Compare("==", c % heads, 0),
        Compare(">=", heads, 3),
        Compare("==", w % 2, 0),
    )
    verdict = facts.decide(Compare("==", c, heads))
    assert verdict == Refuted({"c": 6, "c_in": 6, "heads": 3})


def test_examples_can_be_as_large_as_real_models() -> None:
    large = Compare("<", a * b * c * d, 10_000_000)
    verdict = Facts().decide(large)
    assert isinstance(verdict, Refuted)
    assert verdict.example.keys() == {"a", "b", "c", "d"}
    assert given(Compare(">=", h, 224)).decide(Compare("!=", h % 32, 0)) == Refuted({"h": 224})


def test_examples_hold_the_flags() -> None:
    facts = given(Or((Not(Flag("bias")), Compare("==", s, 3))))
    assert facts.decide(Not(Flag("bias"))) == Refuted({"bias": True, "s": 3})
    assert facts.decide(Flag("bias")) == Refuted({"bias": False, "s": 1})
    known = given(Flag("bias"), Or((Not(Flag("bias")), Compare("<", s, w))))
    assert known.decide(Compare("<=", w, 2)) == Refuted({"bias": True, "s": 1, "w": 3})


def test_an_example_of_a_condition() -> None:
    facts = given(Compare("==", d % n, 0))
    assert facts.example(Compare(">", d, n)) == {"d": 2, "n": 1}
    assert facts.example(Compare("<", d, n)) is None


def test_no_example_has_a_size_below_its_bound() -> None:
    """A solved variable keeps its bound: of h == 2*c - w that is w < 2*c."""
    facts = given(Compare("==", h + w, 2 * c))
    for name in (h, w):
        assert facts.example(Compare(">=", name, 2 * c)) is None
        assert facts.example(Compare("==", name, 2 * c - 1)) is not None
    empty = facts.with_lower_bound("h", 0)
    assert empty.example(Compare(">=", w, 2 * c)) == {"c": 1, "h": 0, "w": 2}
    assert empty.example(Compare(">=", h, 2 * c)) is None


def test_facts_no_sizes_were_found_for_refute_nothing() -> None:
    """That `h * h == 2 * w * w` has no solution is beyond the solver; it must not guess."""
    facts = given(Compare("==", h * h, 2 * w * w))
    assert not facts.is_contradictory
    assert facts.decide(Compare("==", c, 1)) == Unknown(None)
    assert facts.decide(Compare("==", h, 1)) == Unknown(None)


def test_what_is_true_for_odd_reasons_may_stay_unknown() -> None:
    """The divisor may be negative: no proof, and no example."""
    assert isinstance(Facts().decide(Compare("<=", h // (s - w), h)), Unknown)


def test_a_divisor_that_is_zero_for_every_other_size_is_one_where_it_divides() -> None:
    assert isinstance(Facts().decide(Compare(">=", (w // (h % 2)) * (h % 2), w)), Proved)
    assert not isinstance(Facts().decide(Compare(">=", (w // (h % 3)) * (h % 3), w)), Proved)


def test_unknown_is_said_with_what_is_missing() -> None:
    """No two cubes make a cube, but the solver does not know."""
    verdict = Facts().decide(Compare("!=", a**3 + b**3, c**3))
    assert verdict == Unknown(Compare("!=", a**3 + b**3, c**3))


@pytest.mark.parametrize(
    ("facts", "condition", "hint"),
    [
        ([], Compare("==", d, heads * (d // heads)), "d % heads == 0"),
        ([], Compare("==", (h // p) * (w // p) * p * p, h * w), "h % p == 0 and w % p == 0"),
        ([], Compare("==", (t - 1) // 2 + 1, t // 2), "t % 2 == 0"),
        ([], Compare("==", 4 * (((h // 2) * 3) // 6), h), "h % 4 == 0"),
        ([], Compare(">=", (h - 7) // 2 + 1, 1), "h >= 7"),
        ([], Compare(">=", (h + 2 * p - k) // s + 1, 1), "h + 2*p >= k"),
        ([], Compare("<=", h, 224), "h <= 224"),
        ([], Compare("<", h // 2, 7), "h <= 13"),
        ([], Compare(">", h * w, 1), "h*w >= 2"),
        ([], Compare(">=", (h // s) * (w // s), 1), "(h//s)*(w//s) >= 1"),
        ([Compare("==", d % n, 0)], Compare(">=", d, 2 * n), "d >= 2*n"),
        ([], Compare("!=", 2 * h, 2 * w), "h != w"),
        ([], Compare("!=", 3, h * w), "h*w != 3"),
        ([], Not(Compare("==", h, w)), "h != w"),
        ([], And((Compare("==", d % n, 0), Compare(">=", d, n))), "d % n == 0"),
    ],
)
def test_hints(facts: list[Condition], condition: Condition, hint: str) -> None:
    known = given(*facts)
    found = known.suggest(condition)
    assert found is not None
    assert show_condition(found) == hint
    assert known.assume(found).decide(condition) == Proved()


@pytest.mark.parametrize(
    ("facts", "condition"),
    [
        ([], Compare("==", (t - 1) // 2 + 1, positions)),
        ([], Compare("==", c_in, c)),
        ([], Compare("==", c * h, c_in * h)),
        ([], Compare("==", (h - 1) // stride + 1, h)),
        ([], Compare("==", h * w, h)),
        ([], Compare("==", a * a, b * b)),
        ([], Compare("==", a * a, a * (b // b) * 3)),
        ([], Compare("==", 2 * h, 3 * w)),
        ([Compare("==", d % n, 0)], Compare("==", d, 2 * n)),
        ([], Compare("==", 3, h * w)),
        ([], Flag("bias")),
        ([], Not(Flag("bias"))),
        ([Flag("bias")], And((Flag("bias"), Compare("==", h, w)))),
    ],
)
def test_that_sizes_are_equal_is_no_hint(facts: list[Condition], condition: Condition) -> None:
    """Nor that a size is a number, nor that a flag is set."""
    assert given(*facts).suggest(condition) is None


@pytest.mark.parametrize(
    "condition",
    [
        False,
        Or((Compare("==", h, 0), Compare("==", w, 0))),
        Compare("==", h, h + 1),
        Compare("==", 2 * h, 2 * w + 1),
        Compare(">=", 0 - h, 1),
        Compare(">=", h, h + 1),
    ],
)
def test_there_is_no_hint_where_nothing_helps(condition: Condition) -> None:
    assert Facts().suggest(condition) is None


def test_there_is_no_hint_where_a_size_is_never_defined() -> None:
    assert given(Compare("==", s, 1)).suggest(Compare("==", h // (s - 1), 4)) is None
