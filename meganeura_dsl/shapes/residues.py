"""Sizes without symbolic divisors are polynomials on each residue class of their variables.

With v = L*q + r, where L is a multiple of every divisor v meets, each floor is a polynomial in q.
A polynomial of degree k in q is zero everywhere once it is zero at k + 1 consecutive places. So
such a size is zero for all integers when it is zero on the grid 0 <= v < L*(k + 1): a decision
procedure for equality, products of variables included.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from math import lcm, prod

from meganeura_dsl.shapes.dim import Dim, Size, dim, evaluate, rebuild
from meganeura_dsl.shapes.polynomial import Atom, Floor, floors_of, terms_of, variables_of

_MOST_CLASSES = 4096
_MOST_POINTS = 4 * _MOST_CLASSES


def is_zero_everywhere(size: Dim) -> bool:
    """Whether a size is zero for all integers; False also where that would take too long.

    A floor with a symbolic divisor is treated as one more variable, which proves less.
    """
    smooth = with_opaque_floors(size)
    periods = periods_of(smooth)
    sides = {name: period * (_degree(smooth, name) + 1) for name, period in periods.items()}
    if prod(periods.values()) > _MOST_CLASSES or prod(sides.values()) > _MOST_POINTS:
        return False
    points = product(*map(range, sides.values()))
    return not any(evaluate(smooth, dict(zip(sides, point, strict=True))) for point in points)


def residue_classes(periods: Mapping[str, int]) -> Iterator[dict[str, Size]]:
    """For each residue class the substitution v := L*v + r."""
    steps = {name: period for name, period in periods.items() if period > 1}
    for residues in product(*map(range, steps.values())):
        pairs = zip(steps.items(), residues, strict=True)
        yield {name: step * dim(name) + residue for (name, step), residue in pairs}


def periods_of(size: Size) -> dict[str, int]:
    """For each variable the least L that makes all floors with constant divisors exact."""
    periods = dict.fromkeys(sorted(variables_of(size)), 1)
    for floor in floors_of(size):
        if isinstance(floor.denominator, int):
            for name, period in periods_of(floor.numerator).items():
                periods[name] = lcm(periods[name], period * floor.denominator)
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
