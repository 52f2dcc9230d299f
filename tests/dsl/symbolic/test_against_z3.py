"""Our answers against those of an independent solver, Z3 (the optional dependencies `smt`)."""

from typing import Any

import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.symbolic.assumptions import Compare, Facts, Operator, Proved, Refuted
from tests.dsl.symbolic.expressions import OPERATORS, Tree, read, size_of, trees
from tests.effort import effort

MEANINGS = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<=": lambda left, right: left <= right,
    "<": lambda left, right: left < right,
}


def expression(tree: Tree) -> Any:  # noqa: ANN401 - Z3 has no types
    """The tree for Z3, whose `/` and `%` round down where the divisor is positive, as it is."""
    return read(tree, z3.Int, z3.IntVal, lambda left, right: left / right)


def asked(facts: list[Any], claim: Any) -> z3.CheckSatResult:  # noqa: ANN401 - Z3 has no types
    """Asks z3 for sizes that satisfy the facts and not the claim, within some milliseconds."""
    solver = z3.Solver()
    solver.set("timeout", 100)
    solver.add(*(z3.Int(name) >= 1 for name in "hws"), *facts, z3.Not(claim))
    return solver.check()


@settings(max_examples=effort(120, 10_000))
@given(
    st.lists(st.tuples(st.sampled_from("hws"), st.sampled_from([2, 3, "w", "s"])), max_size=2),
    st.sampled_from(["==", "!=", "<=", "<"]),
    trees(depth=2),
    trees(depth=2),
)
def test_the_verdict_is_that_of_z3(
    divisible: list[tuple[str, Tree]], operator: Operator, left: Tree, right: Tree
) -> None:
    facts = Facts()
    for name, divisor in divisible:
        facts = facts.assume(Compare("==", size_of(("%", name, divisor)), 0))
    stated = [expression(("%", name, divisor)) == 0 for name, divisor in divisible]
    claim = MEANINGS[operator](expression(left), expression(right))

    verdict = facts.decide(Compare(operator, size_of(left), size_of(right)))
    answer = asked(stated, claim)

    assert not (verdict == Proved() and answer == z3.sat)
    assert not (isinstance(verdict, Refuted) and answer == z3.unsat)


def test_z3_reads_trees_as_we_do() -> None:
    tree = ("-", ("//", ("-", 1, "h"), 3), ("%", ("-", 2, "h"), "w"))
    values = {"h": 9, "w": 4}
    fixed = [z3.Int(name) == value for name, value in values.items()]
    number = read(tree, values.__getitem__)
    assert asked(fixed, expression(tree) == number) == z3.unsat
    assert OPERATORS["//"](1 - 9, 3) - OPERATORS["%"](2 - 9, 4) == number
