"""The lines of a variable that the prover has solved an equality for."""

from __future__ import annotations

from collections.abc import Iterator

from meganeura_dsl.symbolic.certificates.lines import Lines
from meganeura_dsl.symbolic.certificates.proofs import at_least
from meganeura_dsl.symbolic.certificates.size_data import size_data
from meganeura_dsl.symbolic.certificates.trees import Unexplained
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.polynomial import Floor, as_size
from meganeura_dsl.symbolic.prover.elimination import Quotient, Solution, linear_variables
from meganeura_dsl.symbolic.size import Dim, Size, dim


def derive_solution(at: Lines, size: Dim, solution: Solution) -> None:
    """Derive what follows of `size == 0` when it is solved for a variable.

    That is `name - value == 0`, the least value of the variable, said of its value, and the values
    of other variables without it.
    """
    name, value, before = solution.name, solution.value, at.known
    if solution.quotient is not None:
        _derive_quotient(at, size, solution, solution.quotient)
    values = [[name, at.zero(dim(name) - value)]]
    for other, old in before.values.items():
        if isinstance(old, Dim) and name in old.variables():
            at.step({"rewrite": at.zero(dim(other) - old), "values": values})
    bound = at.lemma(Compare(">=", dim(name), before.least_of(name)), [{"tree": 1}])
    at.step({"rewrite": bound, "values": values})


def _derive_quotient(at: Lines, size: Dim, solution: Solution, quotient: Quotient) -> None:
    """Introduce the quotient, and derive what the variable is by it."""
    name, new = dim(solution.name), dim(quotient.name)
    target = name - solution.value
    for relation, whole, floor in _relations(at, size):
        coefficient = dict(linear_variables(whole)).get(solution.name)
        if coefficient is None:
            continue
        divisor, rest = floor.denominator, whole - coefficient * name
        remainder = solution.value - divisor * new
        if isinstance(divisor, int) and isinstance(rest, int) and isinstance(remainder, int):
            modulo = {"modulo": divisor, "rest": remainder}
            at.step({"congruent": at.zero(relation), "name": solution.name, **modulo})
            meaning = name // divisor
            proofs = at_least(at, meaning)
            _introduce(at, quotient, meaning, {"tree": proofs[0], "facts": proofs[1]})
            parts = [(1, name - remainder - divisor * meaning), (-divisor, new - meaning)]
            at.equal(target, parts)
            return
        if solution.value == coefficient * (divisor * new - rest):
            exact = whole - divisor * as_size(floor)
            _introduce(at, quotient, as_size(floor), _least_quotient(at, quotient, whole, floor))
            parts = [(coefficient, exact), (-coefficient * divisor, new - as_size(floor))]
            at.equal(target, parts)
            return
    raise Unexplained(f"nothing says how {solution.name} was solved for")


def _relations(at: Lines, size: Dim) -> Iterator[tuple[Dim, Size, Floor]]:
    """Equalities that follow from `size == 0`, with what a floor is the exact quotient of."""
    yield from _exact_quotients(size)
    for name, coefficient in linear_variables(size):
        others, divisor = size - coefficient * dim(name), abs(coefficient)
        relation = others % divisor
        if not isinstance(relation, Dim):
            continue
        quotient = -coefficient // divisor * dim(name)
        of = [size_data(others), divisor]
        at.step({"exact": at.zero(size), "of": of, "is": size_data(quotient)})
        at.equal(relation, [(1, size), (-divisor, others // divisor - quotient)])
        yield from _exact_quotients(relation)


def _exact_quotients(relation: Dim) -> Iterator[tuple[Dim, Size, Floor]]:
    for floor in relation.floors():
        share, rest = relation.split(floor)
        for sign in (1, -1):
            if share == -sign * floor.denominator:
                yield relation, sign * rest, floor


def _introduce(at: Lines, quotient: Quotient, meaning: Size, proof: object) -> None:
    least = at.lemma(Compare(">=", meaning, quotient.least), [proof])
    known = [least, quotient.least]
    at.step({"let": quotient.name, "is": size_data(meaning), "least": known})


def _least_quotient(at: Lines, quotient: Quotient, whole: Size, floor: Floor) -> object:
    """The proof that an exact quotient is no less than `quotient.least`, as `whole` is not."""
    divisor, known = floor.denominator, at.known
    left = whole - quotient.least
    try:
        tree, positive, facts = at_least(at, left, divisor - 1)
        why = ["tree", positive]
    except Unexplained:
        tree, positive, facts = at_least(at, left, divisor)
        why = ["divisor", positive]
    exact = at.signed(divisor * as_size(floor) - whole)
    scale = size_data(known.raised(divisor) if isinstance(divisor, Dim) else divisor)
    cut = ["cut", scale, quotient.least, 1, len(facts), why, 1, tree]
    return {"tree": cut, "facts": [*facts, exact]}
