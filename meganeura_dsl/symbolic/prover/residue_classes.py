"""Sizes without symbolic divisors are polynomials on each residue class of their variables.

With v = L*q + r, where L is a multiple of every divisor v meets, each floor is a polynomial in q.
A polynomial of degree k in q is zero everywhere once it is zero at k + 1 consecutive places. So
such a size is zero for all integers when it is zero on the grid 0 <= v < L*(k + 1): a decision
procedure for equality, products of variables included.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import gcd, lcm, prod
from operator import add, mul

from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.polynomial import (
    Atom,
    Floor,
    as_size,
    floors_of,
    length_of,
    terms_of,
    variables_of,
)
from meganeura_dsl.symbolic.size import Dim, Size, dim, rebuild

_MOST_CLASSES = 4096
"""Residue classes in which a size is evaluated: two divisors of 64, or three of 16; the standard
models have 16 at most."""
_MOST_POINTS = 4 * _MOST_CLASSES
"""Points of the grids of all classes; a size that is linear in two variables has four in each."""
_ROWS = 512
"""Points of a grid that are evaluated together."""
_TERMS_OF_A_STEP = 8
"""Terms that take as long as a step where many points are evaluated together."""


def is_zero_everywhere(size: Dim) -> bool:
    """True if a size is zero for all integers; False also where that would take too long.

    A floor with a symbolic divisor is treated as one more variable, which proves less.
    """
    smooth = with_opaque_floors(size)
    periods = periods_of(smooth)
    sides = {name: period * (_degree(smooth, name) + 1) for name, period in periods.items()}
    if prod(periods.values()) > _MOST_CLASSES or prod(sides.values()) > _MOST_POINTS:
        return False
    points = product(*map(range, sides.values()))
    while rows := list(islice(points, _ROWS)):
        spend(length_of(smooth) * len(rows) // _TERMS_OF_A_STEP)
        if any(_values(smooth, dict(zip(sides, zip(*rows, strict=True), strict=True)), len(rows))):
            return False
    return True


def _values(size: Size, columns: Mapping[str, Sequence[int]], count: int) -> list[int]:
    """A size without symbolic divisors at some places, by the values of each variable there."""
    total = [0] * count
    for monomial, coefficient in terms_of(size).items():
        term = [coefficient] * count
        for atom in monomial:
            term = list(map(mul, term, _column(atom, columns, count)))
        total = list(map(add, total, term))
    return total


def _column(atom: Atom, columns: Mapping[str, Sequence[int]], count: int) -> Sequence[int]:
    if isinstance(atom, str):
        return columns[atom]
    divisor = atom.denominator
    assert isinstance(divisor, int)
    return [value // divisor for value in _values(atom.numerator, columns, count)]


def residue_classes(periods: Mapping[str, int]) -> Iterator[dict[str, Size]]:
    """Yields the substitution v := L*v + r for each residue class."""
    steps = {name: period for name, period in periods.items() if period > 1}
    for residues in product(*map(range, steps.values())):
        pairs = zip(steps.items(), residues, strict=True)
        yield {name: step * dim(name) + residue for (name, step), residue in pairs}


def periods_of(size: Size) -> dict[str, int]:
    """Returns for each variable an L that makes all floors with constant divisors exact.

    The term c*M of a numerator changes by a multiple of the divisor d where M changes by one of
    d / gcd(c, d): (6*h)//10 is a polynomial on the classes of h modulo 5.
    """
    periods = dict.fromkeys(sorted(variables_of(size)), 1)
    for floor in floors_of(size):
        if isinstance(floor.denominator, int):
            for monomial, coefficient in terms_of(floor.numerator).items():
                step = floor.denominator // gcd(coefficient, floor.denominator)
                for name, period in periods_of(as_size(*monomial)).items():
                    periods[name] = lcm(periods[name], period * step)
    return periods


def with_opaque_floors(size: Size) -> Size:
    """The size with each floor that has a symbolic divisor replaced by a variable."""

    def change(atom: Atom) -> Size:
        if isinstance(atom, str):
            return dim(atom)
        if isinstance(atom.denominator, Dim):
            return dim(f"floor {atom}")
        return with_opaque_floors(atom.numerator) // atom.denominator

    return rebuild(size, change) if _has_symbolic_divisor(size) else size


def _has_symbolic_divisor(size: Size) -> bool:
    return any(
        isinstance(floor.denominator, Dim) or _has_symbolic_divisor(floor.numerator)
        for floor in floors_of(size)
    )


def _degree(size: Size, name: str) -> int:
    """The degree in one variable of the polynomials the size is on its residue classes."""
    degrees = (sum(_atom_degree(atom, name) for atom in key) for key in terms_of(size))
    return max(degrees, default=0)


def _atom_degree(atom: Atom, name: str) -> int:
    return _degree(atom.numerator, name) if isinstance(atom, Floor) else int(atom == name)
