"""Sizes of tensors: plain integers, or polynomials over named dimensions.

Arithmetic on sizes is ordinary arithmetic: `(h - 1) // stride + 1`. Sizes that are plainly equal
are equal objects; whether two other sizes agree, and which is the larger, is for `Facts` to decide.
"""

from collections.abc import Callable, Iterable, Mapping

from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.polynomial import Atom, Dim, Size, show, terms_of

__all__ = ["Dim", "Size", "dim", "evaluate", "product", "rebuild", "show", "substitute"]


def dim(name: str) -> Dim:
    """The size that is the variable `name`."""
    return Dim({(name,): 1})


def product(sizes: Iterable[Size]) -> Size:
    """The product of all sizes, 1 if there are none."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number a size is for these values of its variables."""
    if isinstance(size, int):
        return size
    terms = size.terms
    spend(2 * len(terms))
    total = 0
    for monomial, coefficient in terms.items():
        term = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                term *= values[atom]
                continue
            below = atom.denominator
            divisor = below if isinstance(below, int) else evaluate(below, values)
            term *= evaluate(atom.numerator, values) // divisor
        total += term
    return total


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """The size with variables replaced by other sizes, all at once."""
    if isinstance(size, int) or size.variables().isdisjoint(values):
        return size
    if len(size.terms) == 1:
        ((monomial, coefficient),) = size.terms.items()
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
            return values[monomial[0]]

    def change(atom: Atom) -> Size:
        if isinstance(atom, str):
            return values[atom] if atom in values else dim(atom)
        return substitute(atom.numerator, values) // substitute(atom.denominator, values)

    return rebuild(size, change)


def rebuild(size: Size, change: Callable[[Atom], Size]) -> Size:
    """The size with each factor replaced by a size."""
    total: Size = 0
    for monomial, coefficient in terms_of(size).items():
        term: Size = coefficient
        for atom in monomial:
            term = term * change(atom)
        total = total + term
    return total
