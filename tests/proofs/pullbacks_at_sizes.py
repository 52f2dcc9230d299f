"""Pullbacks at sizes that are numbers: proved for all values of the elements, or for each order.

Where elements are compared, the order of the elements says which of them a result is, and the
derivative is the one in that order. Where some are equal, the gradient has to be that of one order
of those that are near, or the mean of them all: an element of the generalized gradient.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np

from meganeura_dsl.ir.graph import Leaf, Value, dependencies
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.symbolic.assumptions import Facts
from tests.proofs.equality import rest_of
from tests.proofs.exact import (
    LARGEST,
    NORMAL,
    Array,
    Exact,
    exactly,
    interpret,
    unknowns,
)
from tests.proofs.polynomials import EMPTY, ONE, Atom, Polynomial
from tests.proofs.pullback_cases import Case
from tests.proofs.pullbacks import Pulled, Spoil, Variable, atoms_in, derivative, pulled_back, rests
from tests.proofs.worlds import World


def rests_of(case: Case, spoil: Spoil | None = None) -> Iterator[Polynomial]:
    """The rest of the gradients of a case less the adjoint; empty where they are right."""
    if case.is_general:
        yield from rests(case.op, case.types, case.facts, spoil)
    elif case.orders:
        yield from rests_in_orders(case, spoil)
    else:
        yield from rests_at_sizes(case, spoil)


def rests_at_sizes(case: Case, spoil: Spoil | None = None) -> Iterator[Polynomial]:
    """The rest of each element of the gradients less the adjoint; empty where it is right."""
    pulled = pulled_back(case.op, case.types, Facts(), spoil)
    values = interpret(_roots(pulled), _leaves(case, pulled), Exact())
    outs = [each.form for y in pulled.results for each in values[y.id].flat]
    for each in {atom for out in outs for atom in atoms_in(out, "element")}:
        if each.name.startswith(LARGEST):
            yield from (_settled(derivative(NORMAL, out, _by(each))) for out in outs)
    got, wanted = _got(pulled, values), _wanted(pulled, values)
    yield from map(_settled, _differences(got, wanted))


def rests_in_orders(case: Case, spoil: Spoil | None = None) -> Iterator[Polynomial]:
    """The same for every order of the elements, and of 0 where the op compares with it."""
    pulled = pulled_back(case.op, case.types, Facts(), spoil)
    leaves = _leaves(case, pulled)
    atoms = [
        atom
        for place, x in enumerate(pulled.operands)
        if x.type.dtype.is_float
        for atom in _variables(leaves[f"x{place}"])
    ]

    def at(ranks: Sequence[int]) -> dict[int, Array]:
        zero = ranks[-1] if case.orders == "elements and 0" else 0
        order = {atom: rank - zero for atom, rank in zip(atoms, ranks, strict=False)}
        return interpret(_roots(pulled), leaves, Exact(order))

    @cache
    def wanted(ranks: Sequence[int]) -> list[Polynomial]:
        return list(_wanted(pulled, at(ranks)))

    for ranks in _orders(len(atoms) + (case.orders == "elements and 0")):
        got = list(_got(pulled, at(ranks)))
        near = [wanted(each) for each in _without_ties(ranks)]
        mean = [_mean(each) for each in zip(*near, strict=True)]
        parts = ([*map(_settled, _differences(got, each))] for each in (mean, *near))
        found = min(parts, key=lambda rest: sum(bool(each.terms) for each in rest))
        yield from found


def _roots(pulled: Pulled) -> Sequence[Value]:
    """The values of the op and its pullback."""
    ends = (*pulled.cotangents, *pulled.gradients)
    return (*pulled.operands, *pulled.results, *(each for each in ends if each))


def _leaves(case: Case, pulled: Pulled) -> dict[str, Array]:
    """Unknowns for the elements of operands and cotangents, but for integers that are given."""
    leaves = (each.op for each in dependencies(_roots(pulled)))
    found = {
        op.name: unknowns(op.name, concrete_shape(op.shape))
        for op in leaves
        if isinstance(op, Leaf)
    }
    return found | {f"x{place}": exactly(np.array(array)) for place, array in case.given.items()}


def _got(pulled: Pulled, values: Mapping[int, Array]) -> Iterator[Polynomial]:
    """The elements of the gradients of all float operands."""
    for x, gradient in zip(pulled.operands, pulled.gradients, strict=True):
        if x.type.dtype.is_float:
            count = values[x.id].size
            yield from [EMPTY] * count if gradient is None else _forms(values[gradient.id])


def _wanted(pulled: Pulled, values: Mapping[int, Array]) -> Iterator[Polynomial]:
    """The elements of the adjoint of the derivative."""
    pairs = [
        (y, dy)
        for result, given in zip(pulled.results, pulled.cotangents, strict=True)
        if given is not None
        for y, dy in zip(_forms(values[result.id]), _forms(values[given.id]), strict=True)
    ]
    for x in pulled.operands:
        for variable in _variables(values[x.id]) if x.type.dtype.is_float else ():
            total = EMPTY
            for y, dy in pairs:
                total = total + NORMAL.product(dy, derivative(NORMAL, y, _by(variable)))
            yield total


def _variables(array: Array) -> list[Atom]:
    """The unknowns that the elements of an array are."""
    return [form.ordered[0][0].factors[0][0] for form in _forms(array)]


def _forms(array: Array) -> list[Polynomial]:
    return [each.form for each in array.flat]


def _by(variable: Atom) -> Variable:
    """One unknown, where all others are constants."""

    def slope(atom: Atom) -> Polynomial | None:
        if atom.kind != "element":
            return None
        return ONE if atom == variable else EMPTY

    return slope


def _differences(got: Iterable[Polynomial], wanted: Iterable[Polynomial]) -> Iterator[Polynomial]:
    yield from (one - other for one, other in zip(got, wanted, strict=True))


def _settled(x: Polynomial) -> Polynomial:
    return rest_of(World(), x) if x.terms else x


def _mean(parts: Sequence[Polynomial]) -> Polynomial:
    total = EMPTY
    for part in parts:
        total = total + part
    return total.scaled(Fraction(1, len(parts)))


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """Every order of some numbers, of which some may be equal."""
    for ranks in product(range(count), repeat=count):
        if {*ranks} == {*range(len({*ranks}))}:
            yield ranks


def _without_ties(ranks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders near this one in which none are equal."""
    groups = [
        [place for place, each in enumerate(ranks) if each == rank]
        for rank in range(max(ranks) + 1)
    ]
    for chosen in product(*(permutations(group) for group in groups)):
        order = [place for group in chosen for place in group]
        yield tuple(order.index(place) for place in range(len(ranks)))
