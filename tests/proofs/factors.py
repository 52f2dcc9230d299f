"""Factors and terms of the normal form: what does not depend on a world of sizes."""

from collections.abc import Mapping
from fractions import Fraction

from meganeura_dsl.symbolic.polynomial import Floor, divide
from meganeura_dsl.symbolic.size import Size, dim, rebuild, substitute
from tests.proofs.polynomials import (
    INDICATORS,
    Atom,
    Polynomial,
    Term,
    constant,
    names_of,
    product_of,
)

ROOT_OF_HALF, ROOT_OF_PI = Atom("element", "sqrt(1/2)"), Atom("element", "1/sqrt(pi)")
IRRATIONAL = {
    2**-0.5: (1, ROOT_OF_HALF, None),
    0.7978845608028654: (2, ROOT_OF_HALF, ROOT_OF_PI),
    1.1283791670955126: (2, None, ROOT_OF_PI),
    0.3989422804014327: (1, ROOT_OF_HALF, ROOT_OF_PI),
}
"""Floats that stand for a multiple of roots: sqrt(1/2), sqrt(2/pi), 2/sqrt(pi) and 1/sqrt(2 pi)."""
_EXACT = {Fraction(repr(value)): parts for value, parts in IRRATIONAL.items()}


def number(value: Fraction) -> Polynomial:
    """The normal form of a fraction, or of the roots that its float stands for."""
    if abs(value) not in _EXACT:
        return constant(value)
    times, *roots = _EXACT[abs(value)]
    powers = {root: Fraction(1) for root in roots if root is not None}
    return Polynomial({product_of(powers): Fraction(times if value > 0 else -times)})


def moved(atom: Atom, values: Mapping[str, Size]) -> Atom:
    """The atom with indices replaced, in no normal form."""
    if atom.names.isdisjoint(values):
        return atom
    sizes = tuple(substitute(size, values) for size in atom.sizes)
    inside = atom.inside and Polynomial(
        {
            Term(
                tuple((name, substitute(size, values)) for name, size in term.bound),
                tuple((moved(each, values), power) for each, power in term.factors),
            ): value
            for term, value in atom.inside.terms.items()
        }
    )
    return Atom(atom.kind, atom.name, sizes, inside)


def without(term: Term, atom: Atom) -> Term:
    """The term without a factor."""
    return Term(term.bound, tuple(each for each in term.factors if each[0] != atom))


def alone(term: Term) -> Polynomial:
    """The polynomial of one term."""
    return Polynomial({term: Fraction(1)})


def is_turned(atom: Atom, name: str) -> bool:
    """True if an index of an element falls where this one rises."""
    if atom.kind == "element":
        return any(divide(size, dim(name))[0] == -1 for size in atom.sizes)
    terms = atom.inside.terms if atom.inside else ()
    return any(is_turned(each, name) for term in terms for each, _ in term.factors)


def is_contradictory(term: Term) -> bool:
    """True if a factor says of something that it is both above 0 and 0."""
    texts = {
        kind: {a.inside.text for a, _ in term.factors if a.kind == kind and a.inside}
        for kind in ("positive", "zero")
    }
    return not texts["positive"].isdisjoint(texts["zero"])


def divisors(atom: Atom, name: str) -> list[Size]:
    """The divisors of an index, within the atom."""
    found: list[Size] = []
    for size in atom.sizes:
        floors = (each for each in _floors(size) if name in names_of(each.numerator))
        found += [each.denominator for each in floors]
    for term in atom.inside.terms if atom.inside else ():
        for each, _ in term.factors:
            found += divisors(each, name)
    return found


def _floors(size: Size) -> list[Floor]:
    found: list[Floor] = []

    def look(atom: str | Floor) -> Size:
        if isinstance(atom, str):
            return dim(atom)
        found.append(atom)
        rebuild(atom.numerator, look)
        return 0

    rebuild(size, look)
    return found


def common_factor(x: Polynomial) -> tuple[Term, Fraction]:
    """The factors that all terms share, to the least power, and the first coefficient."""
    (first, value), *others = x.ordered
    powers = {
        atom: min([power, *(dict(term.factors).get(atom, Fraction(0)) for term, _ in others)])
        for atom, power in first.factors
        if atom.kind not in INDICATORS
    }
    for term, _ in others:
        for atom, power in term.factors:
            if power < 0 and atom not in powers:
                powers[atom] = min(dict(each.factors).get(atom, Fraction(0)) for each in x.terms)
    bound = {name for term in x.terms for name, _ in term.bound}
    kept = {atom: power for atom, power in powers.items() if power and atom.names.isdisjoint(bound)}
    return product_of(kept), value


def raised(term: Term, exponent: Fraction) -> Term:
    """The term to a power."""
    return Term(term.bound, tuple((atom, power * exponent) for atom, power in term.factors))
