"""Candidate facts that a condition may be missing, the simplest first; the caller tests them.

A fact bounds a size or says what divides it. That two sizes are equal, or that one is a certain
number, is never a candidate: where sizes are bound independently, their disagreement is more
likely a mistake of the program than a fact that it left out.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import assert_never

from meganeura_dsl.symbolic.conditions import (
    And,
    Compare,
    Condition,
    Flag,
    Not,
    Or,
    negate,
)
from meganeura_dsl.symbolic.polynomial import floors_of, sum_of, variables_of
from meganeura_dsl.symbolic.prover.elimination import linear_variables
from meganeura_dsl.symbolic.prover.entailment import (
    Sign,
    reduced,
    without_factors,
    without_outer_floor,
)
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim


def suggestions(condition: Condition, known: SolverState) -> Iterator[Condition]:
    """Conditions that may make `condition` true, in the variables of the program."""
    match condition:
        case bool() | Or() | Flag() | Not(Flag()):
            return
        case Not(part):
            yield from suggestions(negate(part), known)
        case And(parts):
            for part in parts:
                yield from suggestions(part, known)
        case Compare():
            yield from _for_comparison(condition, known)
        case _:
            assert_never(condition)


def _for_comparison(condition: Compare, known: SolverState) -> Iterator[Condition]:
    try:
        sign, size = reduced(condition, known)
    except ZeroDivisionError:
        return
    match sign:
        case "==":
            yield from _for_equality(size, known)
        case "!=":
            yield from (_balanced("!=", form) for form in _forms(size, "!=", known))
        case ">=":
            yield from _for_inequality(size, known)
        case _:
            assert_never(sign)


def _forms(size: Size, sign: Sign, known: SolverState) -> list[Dim]:
    """Ways to write a size of some sign in the variables of the program, without floors first."""
    if isinstance(size, int):
        return []
    sizes = (known.restore(without_factors(size, sign, known)), known.restore(size))
    return sorted(
        (form for form in sizes if isinstance(form, Dim)), key=lambda form: len(form.floors())
    )


def _for_equality(size: Size, known: SolverState) -> Iterator[Condition]:
    """Yields facts about divisors of floors: `h % 2 == 0` for `h == 2 * (h // 2)`."""
    divisible = list(dict.fromkeys(_divisibilities(known.restore(size))))
    yield from divisible
    yield from map(And, combinations(divisible, 2))


def _divisibilities(size: Size) -> Iterator[Condition]:
    """`x % Q == 0` for the variables x above and the divisors Q below."""
    for floor in floors_of(size):
        yield from _divisibilities(floor.numerator)
        for name, _ in linear_variables(floor.numerator):
            yield Compare("==", dim(name) % floor.denominator, 0)


def _for_inequality(size: Size, known: SolverState) -> Iterator[Condition]:
    names = sorted(variables_of(known.restore(size)))
    while (exact := without_outer_floor(size, known)) is not None:
        size = exact
    yield from (_balanced(">=", form) for form in _forms(size, ">=", known))
    yield from (Compare(">=", dim(name), known.least_of(name) + 1) for name in names)


def _balanced(operator: Sign, size: Dim) -> Condition:
    """`size operator 0` with nothing negative on either side, a constant on the right."""
    terms = size.terms.items()
    left = sum_of({monomial: value for monomial, value in terms if value > 0})
    right = sum_of({monomial: -value for monomial, value in terms if value < 0})
    if isinstance(left, int):
        return Compare("<=" if operator == ">=" else operator, right, left)
    return Compare(operator, left, right)
