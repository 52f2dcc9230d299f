"""Inequalities: what must be shown before an output size or a divisor is accepted."""

import pytest

from meganeura_dsl.symbolic.assumptions import Compare, Condition, Facts, Proved, Refuted
from meganeura_dsl.symbolic.conditions import holds
from meganeura_dsl.symbolic.prover.nonnegativity import is_nonnegative
from meganeura_dsl.symbolic.prover.residue_classes import is_zero_everywhere
from meganeura_dsl.symbolic.size import Dim, Size, dim

a, b, c, d, h, k, n, p, s, w = map(dim, "abcdhknpsw")


def at_least(left: Size, right: Size) -> Compare:
    return Compare(">=", left, right)


def given(*conditions: Condition) -> Facts:
    facts = Facts().with_lower_bound("p", 0)
    for condition in conditions:
        facts = facts.assume(condition)
    return facts


SHOWN = [
    # output sizes of convolutions and pools
    ([], at_least((h - 1) // s + 1, 1)),
    ([], at_least((h + 2 * 3 - 7) // 2 + 1, 1)),
    ([], at_least(h + 2 * (k // 2), k)),
    ([], at_least((h + 2 * (k // 2) - k) // s + 1, 1)),
    ([at_least(h + 2 * p, k)], at_least((h + 2 * p - k) // s + 1, 1)),
    ([at_least(h + 2 * p, d * (k - 1) + 1)], at_least((h + 2 * p - d * (k - 1) - 1) // s + 1, 1)),
    ([at_least(h, 7)], at_least(h - 6, 1)),
    ([at_least(h, 7)], at_least((h - 7) // s + 1, 1)),
    ([at_least(h, 4)], at_least(((h - 1) // 2 + 1 - 2) // 2 + 1, 1)),
    ([Compare("<=", p, k // 2)], Compare("<=", 2 * p, k)),
    ([Compare("<=", 2 * p, k)], Compare("<=", p, k // 2)),
    ([at_least(h, s), at_least(w, s)], at_least((h // s) * (w // s), 1)),
    ([at_least(h, 2), at_least(w, 3)], at_least((h // 2) * (w // 3) * c, c)),
    # products
    ([], at_least(3 * h * w, 3)),
    ([], at_least(h * w, w)),
    ([at_least(h, 2)], Compare(">", h * w, w)),
    ([at_least(h, w)], at_least(h * c, w * c)),
    ([Compare("<=", h, 224)], Compare("<=", 3 * h, 672)),
    ([at_least(h * w, 60)], at_least(h * w * c, 50 * c)),
    ([at_least(h, 2)], at_least(h * h, 2 * h)),
    # floors
    ([], Compare("<=", (h - 1) // 2 + 1, h)),
    ([], Compare("<=", h // 2, h)),
    ([], Compare("<=", s * (h // s), h)),
    ([], Compare("<", h % s, s)),
    ([], at_least(h % s, 0)),
    ([], Compare("<=", h // s, (h + 1) // s)),
    ([], Compare("<=", h // (2 * s), h // s)),
    ([], at_least(((h + p) // s) * s + s, h + 1)),
    ([], at_least(h // 3 + h // 3 + 2, (2 * h) // 3)),
    ([], Compare("<", h % 5 + w % 3, 7)),
    ([], at_least(h % 4 * 2, h % 2)),
    ([at_least(s, 1)], at_least(h // s, 0)),
    # divisors that could be zero, which they are not where they divide
    ([], at_least(h // p, 0)),
    ([at_least((h // p) * (w // p), 2)], at_least((h // p) * (w // p) * c, 2 * c)),
    ([], at_least(w // (h % 2), 1)),
    # chains
    ([Compare("<=", a, b), Compare("<=", b, c), Compare("<", c, d)], Compare("<", a, d)),
    ([at_least(2 * a, b + c), at_least(b, 3), at_least(c, 4)], at_least(a, 4)),
    ([at_least(2 * a, 7)], at_least(a, 4)),
    # inequality from divisibility and the other way round
    ([], Compare("!=", 2 * h, 2 * w + 1)),
    ([], Compare("!=", h * h % 4, 3)),
    ([], Compare("!=", 2 * (h // 11), 2 * (w // 13) + 1)),
    ([], Compare("!=", h * w + h, 0)),
    ([], at_least(1 - (h * h + h) % 2, 1)),
    ([Compare("<=", k, h), Compare("<", h, 2 * k)], Compare("==", h // k, 1)),
    ([Compare("<", h, w)], Compare("==", h // w, 0)),
    ([Compare("<", h, w)], Compare("==", h % w, h)),
]


@pytest.mark.parametrize(("facts", "condition"), SHOWN)
def test_shown(facts: list[Condition], condition: Condition) -> None:
    assert given(*facts).decide(condition) == Proved()


REFUTED = [
    ([], at_least((h + 2 * p - k) // s + 1, 1), {"h": 1, "k": 2, "p": 0, "s": 1}),
    ([], at_least((h - 7) // 2 + 1, 1), {"h": 1}),
    ([at_least(h, 6)], at_least(h - 6, 1), {"h": 6}),
    ([], at_least(d // n, 1), {"d": 1, "n": 2}),
    ([], at_least(h // (s - w), 0), {"h": 1, "s": 1, "w": 2}),
    ([Compare("==", w, h // p)], at_least(w, 2), {"h": 1, "p": 1, "w": 1}),
    ([], Compare(">", h * w, 1), {"h": 1, "w": 1}),
    ([Compare("<=", p, k // 2)], Compare("<", 2 * p, k), {"k": 2, "p": 1}),
    ([], Compare("<=", h, 50), {"h": 51}),
    ([], Compare("<", h * w, 400), {"h": 20, "w": 20}),
    ([], Compare("!=", h, 2 * w), {"h": 2, "w": 1}),
    ([], Compare("!=", h // 11, w // 13 + 1), {"h": 11, "w": 1}),
    ([], Compare("==", h // 97 + w // 89, w // 97 + h // 89), {"h": 1, "w": 89}),
    ([Compare("!=", h, 2 * w)], Compare("!=", h, 3 * w), {"h": 3, "w": 1}),
    ([Compare("==", d % n, 0)], Compare("<", d, 5 * n), {"d": 5, "n": 1}),
    ([Compare("==", d % n, 0), at_least(n, 3)], Compare("==", d, n), {"d": 6, "n": 3}),
]


@pytest.mark.parametrize(("facts", "condition", "example"), REFUTED)
def test_refuted_by_the_smallest_sizes(
    facts: list[Condition], condition: Condition, example: dict[str, int]
) -> None:
    known = given(*facts)
    assert known.decide(condition) == Refuted(example)
    assert not holds(condition, example)
    assert all(holds(fact, example) for fact in facts)


def test_a_size_is_zero_everywhere_by_its_coefficients() -> None:
    zero, other = h // 2 + (h + 1) // 2 - h, h // 2 + (h + 1) // 2 - 2 * h
    assert isinstance(zero, Dim)
    assert isinstance(other, Dim)
    assert is_zero_everywhere(zero)
    assert not is_zero_everywhere(other)


def one_of(size: Size, period: int, residue: int) -> Size:
    """1 where a size leaves that residue modulo a period, and 0 elsewhere."""
    return (size + period - residue) // period - (size + period - residue - 1) // period


@pytest.mark.parametrize(
    ("period", "other"),
    [(2, 1), (511, 1), (512, 1), (513, 1), (4096, 1), (1024, 2), (2, 2048), (23, 22), (64, 64)],
)
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_size_that_is_zero_at_nearly_all_places_is_not_zero(
    period: int, other: int, place: float
) -> None:
    """Of all residues of two sizes it is 1 at a single pair."""
    rare = one_of(h, period, round(place * (period - 1)))
    if other > 1:
        rare = rare * one_of(w, other, round(place * (other - 1)))
    assert isinstance(rare, Dim)
    assert not is_zero_everywhere(rare)
    assert not isinstance(Facts().decide(Compare("==", rare, 0)), Proved)


@pytest.mark.parametrize(
    "size",
    [h // 64 * (w // 64), h // 513, h // 2 * (w // 300), h // 16 * (w // 16) * (s // 4)],
)
def test_a_size_that_is_zero_of_small_ones_is_refuted_by_a_large_one(size: Size) -> None:
    assert isinstance(size, Dim)
    assert not is_zero_everywhere(size)
    assert not isinstance(Facts().decide(Compare("==", size, 0)), Proved)


@pytest.mark.parametrize("factor", [1, w, w * w, w // 2, w // 64, w // 512 + s, w // 2048])
def test_a_size_that_is_zero_is_so_whatever_it_is_multiplied_by(factor: Size) -> None:
    zero = (h // 2 + (h + 1) // 2 - h) * factor
    assert isinstance(zero, Dim)
    assert is_zero_everywhere(zero)
    for other in (zero + 1, zero + h):
        assert isinstance(other, Dim)
        assert not is_zero_everywhere(other)


@pytest.mark.parametrize("factor", [w // 2049, (w // 64) * (s // 33), (w // 1024) * (s // 2) * a])
def test_a_size_of_too_many_classes_is_not_known_to_be_zero(factor: Size) -> None:
    zero = (h // 2 + (h + 1) // 2 - h) * factor
    assert isinstance(zero, Dim)
    assert not is_zero_everywhere(zero)


def test_a_second_divisor_does_not_hide_a_bound() -> None:
    c, ratio = dim("c"), dim("ratio")
    facts = Facts().assume(Compare("==", c % ratio, 0)).assume(Compare("==", c % 2, 0))
    assert isinstance(facts.decide(Compare(">=", c, 1)), Proved)
    assert isinstance(facts.decide(Compare("<", 0, c * ratio)), Proved)


def test_long_sizes_are_not_searched() -> None:
    """Each step may multiply the terms by others: a line of text could take minutes."""

    def with_others(count: int) -> Size:
        return sum((dim(f"x{number}") for number in range(count)), h - h // 2)

    assert is_nonnegative(with_others(96))
    assert not is_nonnegative(with_others(97))
    inside = with_others(60)
    assert is_nonnegative(inside // 3 + h - h // 2)
    assert not is_nonnegative((inside * (w + 1)) // 3 + h - h // 2)


# --- every condition of a rule matters -----------------------------------------------------------

RARE = (h + 4) // 16 - (h + 3) // 16
"""1 where h % 16 == 12, where no sample point is, and 0 elsewhere."""


def test_a_floor_is_below_the_next_number_and_may_reach_it_less_one() -> None:
    assert not is_nonnegative(-((1 + RARE) // 2))
    assert Facts().decide(Compare("<=", (2 * h + 1 + RARE) // 2, h)) == Refuted({"h": 12})


def test_a_fact_is_multiplied_by_nothing_that_may_be_negative() -> None:
    seldom_negative = -RARE // (s + 1)
    assert not is_nonnegative(seldom_negative * (a - b), [a - b])
    assert is_nonnegative((h // (s + 1)) * (a - b), [a - b])


def test_a_floor_is_dissolved_only_where_its_divisor_is_positive() -> None:
    seldom_negative = 1 - 2 * RARE
    assert not is_nonnegative(a - (-a - 2) // seldom_negative)
    assert is_nonnegative(a - (-a - 2) // (s + 1))


def test_a_quotient_by_zero_is_no_sample_of_an_equation() -> None:
    """The equation has no sample point at first, and the divisor is zero at the next."""
    product = h * w - 96
    assert is_nonnegative(h * w - 90, [product, -product, h // k - 1])
    assert not is_nonnegative(h - 1 - w, [product, -product, h // k - 1])
