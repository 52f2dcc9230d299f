"""Sizes and conditions as a certificate writes them."""

from typing import Any, assert_never

from meganeura_dsl.symbolic.conditions import And, Compare, Condition, Flag, Not, Or
from meganeura_dsl.symbolic.polynomial import Atom
from meganeura_dsl.symbolic.size import Size

Json = Any


def size_data(size: Size) -> Json:
    """A size: `3`, `"n"`, `["+", ...]`, `["*", ...]` or `["//", above, below]`."""
    if isinstance(size, int):
        return size
    terms = [_term(monomial, value) for monomial, value in size.terms.items()]
    return terms[0] if len(terms) == 1 else ["+", *terms]


def condition_data(condition: Condition) -> Json:
    """A condition: `["<=", left, right]`, `["or", ...]`, `["flag", name]` and so on."""
    match condition:
        case bool():
            return condition
        case Compare(operator, left, right):
            return [operator, size_data(left), size_data(right)]
        case Flag(name):
            return ["flag", name]
        case Not(part):
            return ["not", condition_data(part)]
        case And(parts):
            return ["and", *map(condition_data, parts)]
        case Or(parts):
            return ["or", *map(condition_data, parts)]
        case _:
            assert_never(condition)


def _term(monomial: tuple[Atom, ...], value: int) -> Json:
    factors = [_factor(atom) for atom in monomial]
    if value != 1 or not factors:
        factors.insert(0, value)
    return factors[0] if len(factors) == 1 else ["*", *factors]


def _factor(atom: Atom) -> Json:
    if isinstance(atom, str):
        return atom
    return ["//", size_data(atom.numerator), size_data(atom.denominator)]
