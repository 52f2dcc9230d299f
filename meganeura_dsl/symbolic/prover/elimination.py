"""Solving `size == 0` for a variable, over the integers."""

from collections.abc import Iterator
from typing import NamedTuple

from meganeura_dsl.symbolic.polynomial import Floor, as_size, variables_of
from meganeura_dsl.symbolic.prover.entailment import is_at_least
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim, show


class Quotient(NamedTuple):
    """A new variable for a quotient that leaves no remainder."""

    name: str
    meaning: Size
    """The quotient in the variables of the program: d//heads."""
    least: int


class Solution(NamedTuple):
    """A variable and its value, which may be in terms of a new variable."""

    name: str
    value: Size
    quotient: Quotient | None = None


def solve(size: Dim, known: SolverState) -> Solution | None:
    """A variable's value wherever `size == 0`, if some variable has one."""
    return _by_isolation(size, known) or _by_congruence(size, known)


def _by_isolation(size: Dim, known: SolverState) -> Solution | None:
    """`x := value`, preferably for an x whose value cannot be below its bound."""
    solutions = [
        Solution(name, dim(name) - coefficient * size)
        for name, coefficient in linear_variables(size)
        if abs(coefficient) == 1
    ]

    def merit(solution: Solution) -> tuple[bool, bool]:
        bound = known.least_of(solution.name)
        return solution.name in known.quotients, is_at_least(solution.value, bound, known)

    return max(solutions, key=merit, default=None)


def _by_congruence(size: Dim, known: SolverState) -> Solution | None:
    """`x := Q*k + r`, with a new variable k, where `size == 0` says that Q divides x - r.

    Either the size is `W - Q*floor(W/Q)`, or that follows for Q = c from `c*x + W == 0`.
    """
    relations: list[Size] = [size]
    for name, coefficient in linear_variables(size):
        relations.append((size - coefficient * dim(name)) % abs(coefficient))
    quotients = (pair for relation in relations for pair in _exact_quotients(relation))
    solutions = (_with_quotient(whole, floor, known) for whole, floor in quotients)
    return next((solution for solution in solutions if solution is not None), None)


def _exact_quotients(relation: Size) -> Iterator[tuple[Size, Floor]]:
    """Floors, and what each is the exact quotient of where `relation == 0`."""
    if isinstance(relation, Dim):
        for floor in relation.floors():
            share, rest = relation.split(floor)
            for sign in (1, -1):
                if share == -sign * floor.denominator:
                    yield sign * rest, floor


def _with_quotient(whole: Size, floor: Floor, known: SolverState) -> Solution | None:
    """A variable's value where `whole` is the divisor of `floor` times `floor`.

    The quotient is a variable like all others, so it must not be negative: neither may the divisor.
    """
    divisor = floor.denominator
    if not is_at_least(divisor, 0, known):
        return None
    for name, coefficient in linear_variables(whole):
        rest = whole - coefficient * dim(name)
        if isinstance(divisor, int) and isinstance(rest, int):
            return _solved_congruence(name, coefficient, -rest, divisor, known)
        least = next((bound for bound in (1, 0) if is_at_least(whole, bound, known)), None)
        if abs(coefficient) == 1 and least is not None and name not in variables_of(divisor):
            quotient = _quotient(known.restore(as_size(floor)), least)
            return Solution(name, coefficient * (divisor * dim(quotient.name) - rest), quotient)
    return None


def _solved_congruence(
    name: str, coefficient: int, target: int, divisor: int, known: SolverState
) -> Solution:
    """`x := divisor*k + r` for `coefficient*x = target` modulo `divisor`.

    The two have no common factor: one of the target too is divided out, another leaves no solution.
    """
    residue = target * pow(coefficient, -1, divisor) % divisor
    quotient = _quotient(known.restore(dim(name)) // divisor, 0)
    return Solution(name, divisor * dim(quotient.name) + residue, quotient)


def _quotient(meaning: Size, least: int) -> Quotient:
    return Quotient(f"quotient {show(meaning)}", meaning, least)


def linear_variables(size: Size) -> Iterator[tuple[str, int]]:
    """The variables that occur once, as a term without other factors, and their coefficients."""
    if isinstance(size, Dim):
        for monomial, coefficient in size.terms.items():
            name = monomial[0] if len(monomial) == 1 else None
            if isinstance(name, str) and name not in variables_of(size - coefficient * dim(name)):
                yield name, coefficient
