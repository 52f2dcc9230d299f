"""Facts: what is learned from them, alone and together, and what excludes what."""

from itertools import permutations
from random import Random

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
    Unproved,
)
from meganeura_dsl.symbolic.conditions import holds, negate, show_condition
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.prover.elimination import solve
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim, show

a, b, c, d, g, h, k, n, p, s, t, w = map(dim, "abcdghknpstw")
c_in, heads, positions, stride = map(dim, ("c_in", "heads", "positions", "stride"))


def equal(left: Size, right: Size) -> Compare:
    return Compare("==", left, right)


def given(*conditions: Condition) -> Facts:
    facts = Facts()
    for condition in conditions:
        facts = facts.assume(condition)
    return facts


FOLLOWS = [
    # equalities
    ([equal(t, 2 * positions)], equal((t - 1) // 2 + 1, positions)),
    ([equal(positions, t // 2), equal(t % 2, 0)], equal((t + 1) // 2, positions)),
    ([equal(c_in, c), equal(c, 64)], equal(c_in, 64)),
    ([equal(heads * h, heads * w)], equal(h, w)),
    ([equal(2 * h, 3 * w)], equal(h % 3, 0)),
    ([equal(2 * h, 3 * w), equal(w, 4)], equal(h, 6)),
    ([equal(h * w, c * d)], equal(a * h * w, c * d * a)),
    ([equal(a * b, 12)], Compare("<=", b, 12)),
    ([equal(a * b, 12), equal(h * w, c * d)], Compare("<=", b, 12)),
    ([equal(h * w, c * d), equal(a * b, 12)], Compare("<=", b, 12)),
    # behind an equation that few sizes satisfy
    ([equal(h * w, 96), equal(h, n + w)], equal(2 * h, 2 * n + 2 * w)),
    ([equal(h * w, 96), equal(w, b + n)], equal(3 * w, 3 * b + 3 * n)),
    ([equal(h * w, 96), equal(w, b * d), Compare(">=", b, 5)], Compare(">=", 2 * b, 10)),
    ([equal(h * w, 96), equal(a * b, 2 * w), Compare(">=", h, k)], Compare(">=", 2 * h, 2 * k)),
    (
        [equal(h * w, 96), Compare("<=", d + h, 4 * b), equal(h, n + w)],
        equal(2 * h, 2 * n + 2 * w),
    ),
    # quotients
    ([equal((h - 1) // 2 + 1, 14)], And((Compare(">=", h, 27), Compare("<=", h, 28)))),
    ([equal((h - 1) // 2 + 1, 14)], equal(3 * ((h + 1) // 2), 42)),
    ([equal(h // s, w), equal(s, 2)], equal((h // 2) * 2, 2 * w)),
    ([equal(h // k, 1)], And((Compare(">=", h, k), Compare("<", h, 2 * k)))),
    # divisibility
    ([equal(d % heads, 0)], equal(heads * (d // heads), d)),
    ([equal(d % heads, 0)], Compare(">=", d // heads, 1)),
    ([equal(d % heads, 0), equal(d, 384), equal(heads, 6)], equal(d // heads, 64)),
    ([equal(d, 384), equal(384 % heads, 0)], equal(heads * (d // heads), 384)),
    ([equal(c % g, 0), equal(c_in % g, 0)], equal((c // g) * c_in, c * (c_in // g))),
    ([equal(c % (g * g), 0)], equal(c % g, 0)),
    ([equal(k % 2, 1)], equal(k // 2 + k // 2 + 1, k)),
    ([equal(k % 2, 1)], equal((h + 2 * (k // 2) - k) // 1 + 1, h)),
    ([equal(h % 2, 1), equal(h % 3, 1)], equal(h % 6, 1)),
    ([equal((3 * h) % 4, 2)], equal(h % 4, 2)),
    ([equal((h + w) % 2, 0)], equal(h % 2, w % 2)),
    ([equal((h * w) % n, 0)], equal(n * ((h * w) // n), h * w)),
    ([equal((h + 3) % 4, 0), Compare(">=", h, 2)], Compare(">=", h, 5)),
    # the order in which facts are given does not matter
    ([equal(heads, 6), equal(d % heads, 0)], equal(d % 3, 0)),
    ([equal(d % heads, 0), equal(heads, 6)], equal(d % 3, 0)),
    ([Compare("!=", h, w), Compare(">=", h, w)], Compare(">", h, w)),
    ([Compare(">=", h, w), Compare("!=", h, w)], Compare(">", h, w)),
    # what is left
    ([Compare("!=", stride, 1)], Compare(">=", stride, 2)),
    ([Compare("!=", c_in, c)], Compare("!=", 2 * c, 2 * c_in)),
    ([Compare("!=", c_in, c)], Compare("!=", h * c, h * c_in)),
    ([Compare(">=", h, 7), Compare("<=", h, 7)], equal(h, 7)),
    ([Compare("<=", h, w), Compare("<=", w, h)], equal(h * d, d * w)),
    # alternatives
    ([Not(Or((Compare("!=", stride, 1), Compare("!=", c_in, c))))], equal(stride * c, c_in)),
    ([Or((equal(s, 1), equal(s, 2)))], Compare("<=", s, 2)),
    ([Or((equal(s, 1), equal(c, d))), Compare("!=", s, 1)], equal(c, d)),
    ([Compare("!=", s, 1), Or((equal(s, 1), equal(c, d)))], equal(c, d)),
    ([Or((equal(h, 4), And((equal(h, 8), Flag("wide")))))], equal(h % 4, 0)),
    ([equal(s, 1), Or((equal(s, 1), equal(c, d)))], equal(s, 1)),
    ([Or((equal(s, 1), equal(s, 2)))], Or((Compare("<=", s, 2),))),
    ([], Or((Compare("<=", h, w), Compare("<", w, h)))),
    ([], Or((equal(h % 2, 0), equal(h % 2, 1)))),
    ([], Or((Compare("<", h, 5), equal(h, 5), Compare(">", h, 5)))),
    # flags
    ([Flag("bias")], Flag("bias")),
    ([Not(Flag("bias"))], Not(Flag("bias"))),
    ([Or((Flag("bias"), equal(s, 1))), Not(Flag("bias"))], equal(s, 1)),
    ([Or((Not(Flag("bias")), equal(s, 1))), Flag("bias")], equal(s, 1)),
    ([], Or((Flag("bias"), Not(Flag("bias"))))),
    ([], And(())),
    ([], And((Or((Flag("bias"), Not(Flag("bias")))), equal(h * w, w * h)))),
    # floors of sums of floors
    ([], equal(h // s + w // s, (h // s + w // s) // 2 + (h // s + w // s + 1) // 2)),
    ([True], True),
]


@pytest.mark.parametrize(("facts", "conclusion"), FOLLOWS)
def test_what_follows(facts: list[Condition], conclusion: Condition) -> None:
    known = given(*facts)
    assert not known.is_contradictory
    assert known.decide(conclusion) == Proved()
    assert known.truth(conclusion) is True
    assert known.truth(Not(conclusion)) is False


CONTRADICTIONS = [
    [equal(c, 64), equal(c, 32)],
    [equal(c, 64), Compare("<", c, 64)],
    [Compare(">=", c, 65), equal(c, 64)],
    [equal(c_in, c), Compare("!=", c, c_in)],
    [Compare("!=", c, c_in), equal(c_in, c)],
    [equal(h % 2, 0), equal(h % 4, 1)],
    [equal(h % 4, 1), equal(h % 2, 0)],
    [equal(2 * h, 2 * w + 1)],
    [equal(6 * h % 4, 1)],
    [equal(2 * h, w), equal(w % 2, 1)],
    [equal(2 * h + 1, 4 * (w // 4))],
    [equal(2 * h + 1, 6 * (n * w // 6))],
    [Compare("<=", h, s), Compare("<=", s, w), Compare("<", w, h)],
    [Compare("<", h, 1)],
    [equal(h + w, 1)],
    [equal((h - 1) // 2 + 1, 14), equal(h, 30)],
    [equal(h, 30), equal((h - 1) // 2 + 1, 14)],
    [equal(h // s, 3), equal(s, 2), Compare(">", h, 8)],
    [equal(s, 1), equal(h // (s - 1), 4)],
    [Or((equal(s, 1), equal(s, 2))), Compare(">=", s, 3)],
    [Compare(">=", s, 3), Or((equal(s, 1), equal(s, 2)))],
    [Flag("bias"), Not(Flag("bias"))],
    [Or((Flag("bias"), Flag("wide"))), Not(Flag("bias")), Not(Flag("wide"))],
    [Or(())],
    [False],
]


@pytest.mark.parametrize("facts", CONTRADICTIONS)
def test_facts_that_exclude_each_other(facts: list[Condition]) -> None:
    known = given(*facts)
    assert known.is_contradictory
    assert known.decide(equal(h, w)) == Proved()
    assert known.truth(equal(h, w)) is True
    assert known.truth(condition=False) is False, "a constant needs no facts"
    assert known.example(condition=True) is None


def test_facts_before_the_last_are_not_contradictory() -> None:
    for *facts, _ in CONTRADICTIONS:
        assert not given(*facts).is_contradictory


def test_a_branch_does_not_change_the_facts_it_started_from() -> None:
    facts = given(equal(c_in, c))
    inner = facts.assume(equal(c, 64))
    assert inner.truth(equal(c_in, 64)) is True
    assert facts.truth(equal(c_in, 64)) is None
    assert facts.stated == (equal(c_in, c),)
    assert inner.stated == (equal(c_in, c), equal(c, 64))


def test_flags_that_are_known_leave_room_for_the_others() -> None:
    """Of ten flags there are more combinations than are tried."""
    names = "abcdefghij"
    known = given(*(Flag(name) for name in names[:8]))
    joined = known.assume(Or(tuple(Not(Flag(name)) for name in names)))
    example: dict[str, int] = {**dict.fromkeys(names[:8], True), "i": False, "j": False}
    assert joined.decide(Flag("j")) == Refuted(example)


def test_sizes_are_at_least_one_unless_said_otherwise() -> None:
    assert Facts().truth(Compare(">=", p, 1)) is True
    from_zero = Facts().with_lower_bound("p", 0)
    assert from_zero.decide(Compare(">=", p, 1)) == Refuted({"p": 0})
    assert from_zero.truth(Compare(">=", p, 0)) is True
    from_two = Facts().with_lower_bound("p", 2)
    assert from_two.truth(Compare(">=", p, 2)) is True
    with pytest.raises(ValueError, match="never negative: p >= -1"):
        Facts().with_lower_bound("p", -1)


def test_a_lower_bound_given_late_holds_for_earlier_facts() -> None:
    facts = given(equal(h, p + 1), equal(p % 2, 0))
    assert facts.truth(Compare(">=", h, 3)) is True
    assert facts.with_lower_bound("p", 0).decide(Compare(">=", h, 3)) == Refuted({"h": 1, "p": 0})
    assert facts.with_lower_bound("p", 3).truth(Compare(">=", h, 5)) is True


@pytest.mark.parametrize(
    ("facts", "size", "text"),
    [
        ([equal(d % heads, 0)], d // heads, "d//heads"),
        ([equal(d % heads, 0)], d, "d"),
        ([equal(d % heads, 0)], heads * (d // heads) * s, "d*s"),
        ([equal(d % heads, 0)], 2 * d + heads, "2*d + heads"),
        ([equal(d % heads, 0), equal(heads, 6)], d + d // heads, "d + d//6"),
        ([equal(d % heads, 0), equal(d // heads, w)], w + d // heads, "2*w"),
        ([equal(k % 2, 1)], 2 * (k // 2), "k - 1"),
        ([equal(k % 2, 1)], k * k, "k**2"),
        ([equal(t, 2 * positions)], (t + 1) // 2, "positions"),
        ([equal(a * b, c)], a * b, "a*b"),
        ([equal(2 * a * b, 3 * h * w)], 5 * a * b, "a*b + 6*h*w"),
        ([equal(3 * h * w, 2 * a * b)], 5 * a * b, "a*b + 6*h*w"),
        ([equal((h + a) % 2, 0)], h + a, "2*((a + h)//2)"),
        ([Compare("<=", h, 9), equal((10 - h) % w, 0)], w * ((10 - h) // w), "w*((10 - h)//w)"),
        ([equal((h + w) % 2, 0)], (h + w) // 2, "(h + w)//2"),
        ([], (h + 1) // 2, "ceil(h/2)"),
        ([], 3, "3"),
    ],
)
def test_normalized_sizes_speak_of_the_program(
    facts: list[Condition], size: Size, text: str
) -> None:
    assert show(given(*facts).normalize(size)) == text


@pytest.mark.parametrize(
    ("facts", "pattern", "value", "solution"),
    [
        ([equal(d % heads, 0)], heads * k, d, "d//heads"),
        ([], heads * k, d, None),
        ([], heads * k, heads * n * 3, "3*n"),
        ([], 2 * k, 2 * n, "n"),
        ([], 2 * k, n, None),
        ([equal(n % 2, 0)], 2 * k, n, "n//2"),
        ([], k + 1, h, "h - 1"),
        ([], k, 7, "7"),
        ([], 2 * k + 1, 7, "3"),
        ([], 2 * k, 7, None),
        ([], h - k, w, "h - w"),
        ([equal(d, heads * n)], heads * k, d, "n"),
        ([], k * k, 4, None),
        ([], k // 2, 4, None),
        ([], h, h, None),
        ([], (h - w) * k, (h - w) * 3, None),
        ([Compare(">", h, w)], (h - w) * k, (h - w) * 3, "3"),
    ],
)
def test_solving_a_pattern_for_a_new_name(
    facts: list[Condition], pattern: Size, value: Size, solution: str | None
) -> None:
    known = given(*facts)
    found = known.solve_for(pattern, "k", value)
    assert (None if found is None else show(known.normalize(found))) == solution


def test_require() -> None:
    facts = Facts()
    facts.require(Compare(">=", h, 1), "a size is positive")
    facts.require_equal(h // 2 + (h + 1) // 2, h, "the halves make the whole")
    facts.require_same_shape((n, h + 1), (n, 1 + h), "operands have equal shapes")
    with pytest.raises(Unproved) as caught:
        facts.require_equal(h, w, "operands have equal shapes")
    assert caught.value.condition == equal(h, w)
    assert caught.value.verdict == Refuted({"h": 1, "w": 2})
    assert caught.value.reason == "operands have equal shapes"
    assert str(caught.value) == "operands have equal shapes: cannot show h == w"


def test_shapes_of_different_rank_are_not_the_same() -> None:
    with pytest.raises(Unproved) as caught:
        Facts().require_same_shape((n, h), (n,), "operands have equal shapes")
    assert caught.value.verdict == Refuted({})


def test_constants_are_decided_too() -> None:
    assert Facts().decide(equal(3, 3)) == Proved()
    assert Facts().decide(equal(3, 4)) == Refuted({})
    assert Facts().decide(Compare("!=", 3, 4)) == Proved()
    assert Facts().decide(Compare("!=", 3, 3)) == Refuted({})
    assert Facts().decide(Compare(">=", 3, 3)) == Proved()
    assert Facts().decide(Compare(">=", 3, 4)) == Refuted({})
    assert Facts().decide(condition=False) == Refuted({})


def test_a_size_that_is_never_defined_is_not_decided() -> None:
    facts = given(equal(s, 1))
    assert facts.decide(equal(h // (s - 1), 4)) == Unknown(None)
    assert facts.truth(equal(h // (s - 1), 4)) is None


# --- divisors that may be negative ---------------------------------------------------------------


def test_a_quotient_by_a_negative_divisor_is_possible() -> None:
    facts = given(equal(g * w // (2 * s - 3), -6))
    assert not facts.is_contradictory
    assert isinstance(facts.decide(Compare(">", s * g, g + 2)), Refuted)


def test_an_exact_quotient_by_a_negative_divisor_is_not_counted_from_zero() -> None:
    facts = given(equal(s % (2 * w - 4), 0), Compare("<", 5 * w, w + 5))  # w == 1, s even
    assert not facts.is_contradictory
    assert facts.decide(Compare("<=", h, w * s)) == Refuted({"h": 3, "s": 2, "w": 1})
    assert given(equal(s % (2 * w + 4), 0)).decide(Compare(">=", s, 6)) == Proved()


def test_a_variable_of_its_own_divisor_has_no_value() -> None:
    divisor, relation, other = h - s, h % (h - s), k % (h - s)
    assert isinstance(divisor, Dim)
    assert isinstance(relation, Dim)
    assert isinstance(other, Dim)
    known = SolverState(nonnegative=(divisor,))
    solution = solve(relation, known)
    assert solution is None or solution.name not in variables_of(solution.value)
    assert solve(other, known) is not None


def test_a_floor_inside_a_floor_takes_both_divisors() -> None:
    sum_, product = (h // 4 + w // 4) // 2, (h // 4) * (w // 4)
    assert isinstance(Facts().decide(equal(sum_, product)), Refuted)
    assert Facts().decide(equal(2 * sum_ + (h // 4 + w // 4) % 2, h // 4 + w // 4)) == Proved()


def test_a_product_that_is_zero_may_be_zero_by_either_factor() -> None:
    facts = Facts().with_lower_bound("k", 0).assume(equal(k * (h - 2), 0))
    assert facts.decide(equal(h, 2)) == Refuted({"h": 1, "k": 0})
    assert facts.assume(Compare(">=", k, 1)).decide(equal(h, 2)) == Proved()


def test_the_least_value_is_that_of_the_smallest_sizes() -> None:
    h, w = dim("h"), dim("w")
    facts = Facts().with_lower_bound("h", 3).with_lower_bound("w", 0)
    assert [facts.least_value(size) for size in (7, h, h * h + w, h // 2, h + dim("n"))] == [
        7, 3, 9, 1, 4,
    ]  # fmt: skip
    assert facts.least_value(h // w) == 1, "it has no value there"


def test_a_question_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []
    judge = Facts._judge
    monkeypatch.setattr(
        Facts, "_judge", lambda facts, asked: judged.append(asked) or judge(facts, asked)
    )
    facts = Facts()
    verdicts = [facts.decide(Compare(">=", dim("h") + 1, 2)) for _ in range(3)]
    assert len(judged) == 1
    assert isinstance(verdicts[0], Proved)
    assert verdicts == [verdicts[0]] * 3
    facts.assume(Compare(">=", dim("h"), 5)).decide(Compare(">=", dim("h") + 1, 2))
    assert len(judged) == 2, "other facts judge for themselves"


TOGETHER: tuple[Condition, ...] = (
    Compare(">=", h, 3),
    Compare(">=", h * w, 50),
    Compare("!=", h * s, 25),
    equal(w % 4, 0),
    equal(2 * h, 3 * w),
    equal((h - 1) // 2 + 1, c),
    Compare(">=", h // s, c),
    Or((equal(h, 12), equal(w, 9))),
    Or((Compare(">=", h, 14), Compare("<=", w, 8))),
    Flag("f"),
    Not(Flag("g")),
    Compare("<=", c, 6),
    Compare(">=", c, 5),
    Compare("!=", c, 5),
    equal((h + 1) // s, 6),
    Compare("<=", h * c, 100),
    Compare("!=", w * c, 49),
    equal(d, w * s),
    And((Compare(">=", d, w), Compare("!=", c, w))),
    Or((Flag("f"), Compare("<", h, s))),
)
"""Facts of all kinds, which are all true of the sizes below."""
TRUE_OF = {"h": 12, "w": 8, "c": 6, "d": 16, "s": 2, "f": 1, "g": 0}


def test_no_fact_is_lost_where_others_are_added() -> None:
    """Each is asked for as the opposite of its opposite, which nobody has stated."""
    assert all(holds(each, TRUE_OF) for each in TOGETHER)
    here = And(tuple(equal(dim(name), TRUE_OF[name]) for name in "hwcds"))
    triples = Random(0).sample([*permutations(TOGETHER, 3)], 100)
    for facts in (*permutations(TOGETHER, 2), *triples):
        known = given(*facts)
        assert not known.is_contradictory
        assert not known.assume(here).is_contradictory
        for each in facts:
            assert known.proves(Not(negate(each))), (show_condition(each), known.stated)


def test_what_was_stated_holds_though_it_takes_too_long_to_learn() -> None:
    """A bound and two equal products have more consequences than are tried."""
    bound = Compare("<=", c, 6)
    for stated in ([bound], [And((bound, Compare("<=", d, 9)))]):
        known = given(Compare(">=", h, 3), equal(h * w, c * d), *stated)
        assert known.proves(bound)
        assert isinstance(known.decide(bound), Proved)
        assert not known.proves(Compare("<=", c, 5))
    either = given(Or((bound, Compare("<=", d, 9))))
    assert not either.proves(bound)


def test_a_remainder_by_a_difference_is_between_its_ends() -> None:
    """`p % (s - k + 1)` has a divisor whose canonical form is below 0."""
    s, k, p = dim("s"), dim("k"), dim("p")
    facts = Facts().with_lower_bound("p", 0).assume(Compare("<=", k, s))
    at = p % (s - k + 1)
    assert facts.proves(Compare(">=", at, 0))
    assert facts.proves(Compare("<=", at + k, s))
    assert not facts.proves(Compare("<", at + k, s))
    assert not Facts().with_lower_bound("p", 0).proves(Compare(">=", at, 0))


def test_what_a_divisor_divides_is_no_less() -> None:
    patch = dim("patch")
    facts = Facts().assume(Compare("==", 8 % patch, 0))
    assert facts.proves(Compare("<=", patch, 8))
    assert facts.proves(Compare(">=", 8 // patch, 1))
    assert not facts.proves(Compare("<", patch, 8))
    zero = Facts().with_lower_bound("n", 0).assume(Compare("==", dim("n") % patch, 0))
    assert not zero.proves(Compare("<=", patch, dim("n")))


def test_a_size_that_is_its_own_quotient_keeps_its_bound() -> None:
    k, m = dim("k"), dim("m")
    facts = Facts().assume(Compare("==", k, k // m))
    assert facts.proves(Compare("!=", k, 0))
    assert not facts.proves(Compare("!=", k, 2))
    assert not facts.with_lower_bound("k", 0).proves(Compare("!=", k, 0))


def test_a_bound_that_takes_too_long_to_learn_is_kept_as_it_is() -> None:
    h, w, s, patch, kept = (dim(name) for name in ("h", "w", "s", "patch", "kept"))
    facts = Facts()
    for fact in (
        Compare("==", h % patch, 0), Compare("==", w % patch, 0),
        Compare("==", s, h // patch * (w // patch)), Compare("<", kept, s),
        Compare("==", h, 8), Compare("==", w, 8),
    ):  # fmt: skip
        facts = facts.assume(fact)
    assert facts.proves(Compare("<=", kept, s))
    assert not facts.proves(Compare("<=", kept + 2, s))
