"""The normal form of real expressions, as data: sums of products, each under sums over indices.

    3/2 sum_k<n  x[i, k]^2 exp(y)^-1 [i - k >= 0]

is a `Term` with the bound index k of size n, three factors with their powers, and its coefficient.
Two of these are equal if their texts are, which name bound indices in one way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from meganeura_dsl.symbolic.polynomial import in_order
from meganeura_dsl.symbolic.size import Dim, Size

Bound = tuple[tuple[str, Size], ...]
Powers = Mapping["Atom", Fraction]


def names_of(size: Size) -> frozenset[str]:
    """The names that a size depends on."""
    return size.variables() if isinstance(size, Dim) else frozenset()


@lru_cache(maxsize=1 << 16)
def text_of(size: Size) -> str:
    """The text of a size, equal for equal sizes."""
    return str(in_order(size))


@dataclass(frozen=True, eq=False)
class Atom:
    """A factor that is not taken apart.

    `element` of a tensor at `sizes`; `whole`: one factor of an integer; `base`: a sum, to a power
    that is no natural number; `exp` and `function` of what is `inside`; `max` and `prod` of it over
    the index `name` of a size; `positive` and `zero`: 1 if what is inside is so; `==`
    and `>=`: 1 if an integer is 0, or at least 0.
    """

    kind: str
    name: str = ""
    sizes: tuple[Size, ...] = ()
    inside: "Polynomial | None" = None

    @cached_property
    def text(self) -> str:
        """The same for equal atoms."""
        sizes = ", ".join(map(text_of, self.sizes))
        return f"{self.kind}:{self.name}({sizes}|{self.inside.text if self.inside else ''})"

    @cached_property
    def names(self) -> frozenset[str]:
        """The sizes and indices it depends on."""
        found = frozenset[str]().union(*map(names_of, self.sizes))
        if self.inside is None:
            return found
        return found | self.inside.names - ({self.name} if self.kind in REDUCTIONS else set())

    @cached_property
    def height(self) -> int:
        """The depth of its sums and reductions."""
        return (self.inside.height if self.inside else 0) + (self.kind in REDUCTIONS)

    @cached_property
    def _hash(self) -> int:
        return hash(self.text)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self._hash == other._hash and self.text == other.text


@dataclass(frozen=True, eq=False)
class Term:
    """A product under sums over the bound indices."""

    bound: Bound
    factors: tuple[tuple[Atom, Fraction], ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.bound, self.factors))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Term)
            and self._hash == other._hash
            and (self.bound, self.factors) == (other.bound, other.factors)
        )

    @cached_property
    def text(self) -> str:
        """The same for equal terms."""
        sums = "".join(f"S{name}<{text_of(size)} " for name, size in self.bound)
        return sums + " ".join(f"{atom.text}^{power}" for atom, power in self.factors)

    @cached_property
    def names(self) -> frozenset[str]:
        """The sizes and indices it depends on."""
        inside = frozenset[str]().union(*(atom.names for atom, _ in self.factors))
        sizes = frozenset[str]().union(*(names_of(size) for _, size in self.bound))
        return inside - {name for name, _ in self.bound} | sizes

    @cached_property
    def height(self) -> int:
        """The depth of its sums and reductions."""
        return max((atom.height for atom, _ in self.factors), default=0) + bool(self.bound)


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms, each with its coefficient, none of which is 0."""

    terms: Mapping[Term, Fraction]

    @cached_property
    def text(self) -> str:
        """The same for equal polynomials."""
        return " + ".join(f"{value} {term.text}" for term, value in self.ordered)

    @cached_property
    def ordered(self) -> tuple[tuple[Term, Fraction], ...]:
        """The terms in order."""
        return tuple(sorted(self.terms.items(), key=lambda each: each[0].text))

    @cached_property
    def names(self) -> frozenset[str]:
        """The sizes and indices it depends on."""
        return frozenset[str]().union(*(term.names for term in self.terms))

    @cached_property
    def height(self) -> int:
        """The depth of its sums and reductions."""
        return max((term.height for term in self.terms), default=0)

    @property
    def constant(self) -> Fraction | None:
        """The number it is, None where it is none."""
        if not self.terms:
            return Fraction(0)
        ((term, value), *others) = self.terms.items()
        return value if not others and term == UNIT else None

    def __add__(self, other: "Polynomial") -> "Polynomial":
        if not self.terms or not other.terms:
            return self if self.terms else other
        return sum_of((*self.terms.items(), *other.terms.items()))

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + other.scaled(Fraction(-1))

    def scaled(self, by: Fraction) -> "Polynomial":
        """The product with a number."""
        return Polynomial({term: value * by for term, value in self.terms.items()} if by else {})


def sum_of(parts: Iterable[tuple[Term, Fraction]]) -> Polynomial:
    """The sum of terms, each with its coefficient."""
    found: dict[Term, Fraction] = {}
    for term, value in parts:
        found[term] = found.get(term, Fraction(0)) + value
    return Polynomial({term: value for term, value in found.items() if value})


def product_of(powers: Powers, bound: Bound = ()) -> Term:
    """The term of these factors in order. What is 0 or 1 is its own square."""
    kept = (
        (atom, Fraction(1) if atom.kind in INDICATORS and power > 0 else power)
        for atom, power in powers.items()
        if power
    )
    return Term(bound, tuple(sorted(kept, key=lambda each: each[0].text)))


INDICATORS = ("==", ">=", "positive", "zero")
CONDITIONS = ("==", ">=")
REDUCTIONS = ("max", "prod")
UNIT = Term((), ())
EMPTY = Polynomial({})
ONE = Polynomial({UNIT: Fraction(1)})


def constant(value: Fraction | int) -> Polynomial:
    """A number."""
    return Polynomial({UNIT: Fraction(value)} if value else {})


def single(atom: Atom, power: Fraction | int = 1) -> Polynomial:
    """One factor."""
    return Polynomial({Term((), ((atom, Fraction(power)),)): Fraction(1)})
