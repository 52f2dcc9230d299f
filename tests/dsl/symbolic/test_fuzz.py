"""Random facts and conditions, judged by trying all small sizes: the solver must never be wrong."""

from collections.abc import Iterator
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

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
from meganeura_dsl.symbolic.conditions import flags_in, holds, sizes_in
from tests.dsl.symbolic.expressions import Tree, size_of, trees
from tests.effort import effort

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


def comparisons(names: str, depth: int) -> st.SearchStrategy[Condition]:
    size = trees(names, depth).map(size_of)
    return st.builds(Compare, st.sampled_from(OPERATORS), size, size)


def facts_about(names: str) -> st.SearchStrategy[Condition]:
    """The kinds of facts a `where` or an `if` states."""
    divisor = st.sampled_from([2, 3, 4, *names]).map(size_of)
    divisible = st.builds(
        lambda left, right, rest: Compare("==", left % right, rest),
        trees(names, 1).map(size_of),
        divisor,
        st.sampled_from([0, 0, 1]),
    )
    plain = comparisons(names, 1) | divisible | st.just(Flag("flag"))
    pair = st.tuples(plain, plain)
    return plain | plain.map(Not) | pair.map(And) | pair.map(Or)


def small_values(facts: Facts, names: str) -> Iterator[dict[str, int]]:
    """All small sizes that satisfy the facts."""
    ranges = (range(facts.least.get(name, 1), 13) for name in names)
    for *row, flag in product(*ranges, (False, True)):
        values = {**dict(zip(names, row, strict=True)), "flag": flag}
        if _is_true(And(facts.stated), values):
            yield values


def _is_true(condition: Condition, values: dict[str, int]) -> bool:
    try:
        return holds(condition, values)
    except ZeroDivisionError:
        return False


@settings(max_examples=effort(100, 5000))
@given(
    st.lists(facts_about("hw"), max_size=3),
    comparisons("hw", 2) | facts_about("hw"),
    st.integers(0, 3),
)
def test_never_wrong(stated: list[Condition], goal: Condition, least: int) -> None:
    facts = Facts().with_lower_bound("h", least)
    for fact in stated:
        facts = facts.assume(fact)
    values = list(small_values(facts, "hw"))
    against = [each for each in values if _is_true(Not(goal), each)]
    verdict = facts.decide(goal)

    if facts.is_contradictory:
        assert not values
    if verdict == Proved():
        assert not against
    if facts.truth(goal) is True:
        assert not against
    if facts.truth(goal) is False:
        assert all(each in against or not _is_true(goal, each) for each in values)
    if isinstance(verdict, Refuted):
        _check_example(verdict.example, goal, facts, against)
    if isinstance(verdict, Unknown) and verdict.missing is not None:
        assert facts.assume(verdict.missing).decide(goal) == Proved()


def _check_example(
    example: dict[str, int], goal: Condition, facts: Facts, against: list[dict[str, int]]
) -> None:
    """It refutes the goal, satisfies the facts, and no sizes with a smaller sum do both."""
    for rest in ({"h": 3, "w": 3, "flag": False}, {"h": 5, "w": 8, "flag": True}):
        values = rest | example
        assert _is_true(Not(goal), values)
        mentioned = [fact for fact in facts.stated if names_in(fact) <= example.keys()]
        assert _is_true(And(tuple(mentioned)), values)
    sizes = example.keys() - {"flag"}
    total = sum(example[name] for name in sizes)
    assert all(total <= sum(values[name] for name in sizes) for values in against)


def names_in(condition: Condition) -> frozenset[str]:
    return sizes_in(condition) | flags_in(condition)


def constant_divisors(depth: int) -> st.SearchStrategy[Tree]:
    leaf = st.sampled_from(["h", "w", "h", 1, 2, 3])
    if depth == 0:
        return leaf
    part = constant_divisors(depth - 1)
    return (
        leaf
        | st.tuples(st.sampled_from("+-*"), part, part)
        | st.tuples(st.sampled_from(["//", "%"]), part, st.integers(2, 5))
    )


@settings(max_examples=effort(80, 4000))
@given(constant_divisors(3), constant_divisors(3))
def test_equalities_with_constant_divisors_are_always_decided(left: Tree, right: Tree) -> None:
    verdict = Facts().decide(Compare("==", size_of(left), size_of(right)))
    assert not isinstance(verdict, Unknown)


@settings(max_examples=effort(60, 3000))
@given(constant_divisors(3))
@example(("+", "h", ("-", "w", ("//", "h", 5))))
@example(("//", ("-", ("%", "h", 5), ("%", "w", 3)), 2))
def test_a_rewritten_size_is_proved_equal(tree: Tree) -> None:
    size = size_of(tree)
    halves = size // 2 + (size + 1) // 2
    thirds = size // 3 + (size + 1) // 3 + (size + 2) // 3
    assert Facts().decide(Compare("==", halves, thirds)) == Proved()
