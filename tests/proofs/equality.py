"""Equality of two expressions for all sizes: by their normal forms, case by case."""

from collections.abc import Mapping
from fractions import Fraction

from tests.proofs.factors import alone, without
from tests.proofs.normal_form import Normal
from tests.proofs.polynomials import CONDITIONS, Atom, Polynomial, constant, single
from tests.proofs.reals import Real
from tests.proofs.worlds import World

_CASES = 10
"""Conditions that cases are made of, one within another."""


def difference(
    world: World, left: Real, right: Real, numbers: Mapping[str, Real] | None = None
) -> Polynomial:
    """The rest of left - right in a case where it is not shown to be 0; else nothing."""
    normal = Normal(world, numbers)
    return _in_cases(world, normal.of(left) - normal.of(right), numbers, _CASES)


def rest_of(world: World, x: Polynomial) -> Polynomial:
    """The rest of a polynomial in a case where it is not shown to be 0; else nothing."""
    return _in_cases(world, x, None, _CASES)


def _in_cases(
    world: World, x: Polynomial, numbers: Mapping[str, Real] | None, depth: int
) -> Polynomial:
    normal = Normal(world, numbers)
    for name in x.names - world.ranges.keys():
        if name.startswith("@"):
            raise AssertionError(f"the index {name} is free")
    x = _cleared(normal, normal.substituted(normal.settled(x), world.solved))
    condition = _free_condition(x) if depth else None
    if condition is None:
        return x
    (size,) = condition.sizes
    if condition.kind == ">=":
        cases = {1: (world.where_at_least(size, 0),), 0: (world.where_at_least(-1, size),)}
    else:
        below, above = world.where_at_least(-1, size), world.where_at_least(size, 1)
        cases = {1: (world.where_equal(size, 0),), 0: (below, above)}
    for value, worlds in cases.items():
        for case in worlds:
            if case is None:
                continue
            rest = _in_cases(case, _where(normal, x, condition, value), numbers, depth - 1)
            if rest.terms:
                return rest
    return Polynomial({})


def _cleared(normal: Normal, x: Polynomial) -> Polynomial:
    """The polynomial times the denominators that depend on no bound index, which are not 0."""
    for term in x.terms:
        for atom, power in term.factors:
            bound = {name for each in x.terms for name, _ in each.bound}
            if (
                power < 0
                and atom.kind in ("base", "element", "whole")
                and atom.names.isdisjoint(bound)
            ):
                least = min(dict(each.factors).get(atom, Fraction(0)) for each in x.terms)
                found = normal.product(x, single(atom, -least))
                return _cleared(normal, found)
    return x


def _free_condition(x: Polynomial) -> Atom | None:
    """A condition on an integer that depends on no bound index."""
    for term in x.terms:
        bound = {name for name, _ in term.bound}
        for atom, _ in term.factors:
            if atom.kind in CONDITIONS and atom.names.isdisjoint(bound):
                return atom
    return None


def _where(normal: Normal, x: Polynomial, condition: Atom, value: int) -> Polynomial:
    """The polynomial where a condition is 1 or 0."""
    result = Polynomial({})
    for term, coefficient in x.terms.items():
        if value or condition not in dict(term.factors):
            result = result + alone(without(term, condition)).scaled(coefficient)
    return normal.product(result, constant(1))
