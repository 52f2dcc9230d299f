"""The normal form of sizes: integer polynomials over named dimensions and their floors.

A `Dim` is in a normal form, in which most equal sizes are equal objects. It is a sum of
monomials with integer coefficients, and each factor of a monomial is a variable, an integer >= 0,
or a floor(P/Q) from which everything possible is factored out:

    floor((A*Q + R) / Q)          = A + floor(R / Q)
    floor((g*P + r) / (g*Q))      = floor((P + floor(r / g)) / Q)         g > 0, Q > 0
    floor((floor(P/M) + C) / Q)   = floor((P + C*M) / (M*Q))              Q > 0

A division says nothing about the places where its divisor is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import NamedTuple, NoReturn

from meganeura_dsl.limits.work_budget import measured, require_terms, spend


class Floor:
    """The factor floor(numerator / denominator), in lowest terms."""

    __slots__ = ("_hash", "_rank", "denominator", "length", "numerator")

    def __init__(self, numerator: Size, denominator: Size) -> None:
        self.numerator = numerator
        self.denominator = denominator
        self.length = length_of(numerator) + length_of(denominator)
        """Terms of both, those inside floors included."""
        self._hash = hash((numerator, denominator))
        self._rank: Rank | None = None

    def variables(self) -> frozenset[str]:
        """The names the factor depends on."""
        return variables_of(self.numerator) | variables_of(self.denominator)

    @property
    def rank(self) -> Rank:
        """The place among other factors, so that a product is written in one way only."""
        if self._rank is None:
            parts = (self.numerator, self.denominator)
            ranks = (
                tuple(
                    sorted((_rank_of_monomial(key), value) for key, value in terms_of(part).items())
                )
                for part in parts
            )
            self._rank = (1, "", tuple(ranks))
        return self._rank

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Floor) or self._hash != other._hash:
            return False
        return self.numerator == other.numerator and self.denominator == other.denominator

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return show(as_size(self))


Atom = str | Floor
Rank = tuple[int, str, tuple[object, ...]]
Monomial = tuple[Atom, ...]
"""Factors in order, each as often as its power; `()` is the constant term."""


class Dim:
    """A size that is not a constant. Immutable; equal when the normal forms are equal."""

    __slots__ = ("_hash", "_terms", "_variables")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self._terms = terms
        self._hash: int | None = None
        self._variables: frozenset[str] | None = None

    @property
    def terms(self) -> Mapping[Monomial, int]:
        """The coefficient of each monomial; none is zero, and one is not the constant term."""
        return self._terms

    def variables(self) -> frozenset[str]:
        """The names the size depends on, those inside floors included."""
        if self._variables is None:
            names: set[str] = set()
            for monomial in self._terms:
                for atom in monomial:
                    names |= {atom} if isinstance(atom, str) else atom.variables()
            self._variables = frozenset(names)
        return self._variables

    def floors(self) -> list[Floor]:
        """The floors among the factors, each once, in the order they occur."""
        spend(len(self._terms))
        atoms = (atom for monomial in self._terms for atom in monomial)
        return list(dict.fromkeys(atom for atom in atoms if isinstance(atom, Floor)))

    def split(self, atom: Atom) -> tuple[Size, Size]:
        """The `share` and `rest` of `share * atom + rest`; the atom is no factor in the rest."""
        return divide(self, as_size(atom))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Dim) and self._terms == other._terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._terms.items()))
        return self._hash

    def __add__(self, other: Size) -> Size:
        return sum_of(_sum(self._terms, terms_of(other)))

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return sum_of(_sum(self._terms, terms_of(other), -1))

    def __rsub__(self, other: Size) -> Size:
        return sum_of(_sum(terms_of(other), self._terms, -1))

    def __neg__(self) -> Dim:
        return Dim({monomial: -coefficient for monomial, coefficient in self._terms.items()})

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            return _scaled(self, other)
        return sum_of(_product(self._terms, other._terms))

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return _floor(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _floor(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - other * _floor(self, other)

    def __rmod__(self, other: Size) -> Size:
        return other - self * _floor(other, self)

    def __pow__(self, exponent: int) -> Size:
        if exponent < 0:
            raise ValueError(f"a size has no negative powers: ({self}) ** {exponent}")
        power: Size = 1
        for _ in range(exponent):
            power = power * self
        return power

    def __lt__(self, other: object) -> NoReturn:
        raise TypeError(f"the order of {self} and {other} depends on the sizes: ask Facts.decide")

    __le__ = __gt__ = __ge__ = __lt__

    def __str__(self) -> str:
        return show(self)

    def __repr__(self) -> str:
        return f"<Dim {show(self)}>"


Size = int | Dim


def sum_of(terms: Mapping[Monomial, int]) -> Size:
    """The size with these terms, none of which is zero."""
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Dim(terms)


def as_size(*atoms: Atom) -> Size:
    """The product of some factors of a monomial, in order."""
    return sum_of({atoms: 1})


def divide(dividend: Size, divisor: Size) -> tuple[Size, Size]:
    """Quotient and remainder of polynomials: `dividend == quotient * divisor + remainder`.

    No term of the remainder is divisible by the leading term of the divisor, which must have a
    positive coefficient; coefficients divide as integers do, leaving something in [0, leading).
    """
    if isinstance(divisor, int):
        pairs = [(key, *divmod(value, divisor)) for key, value in terms_of(dividend).items()]
        quotients = {monomial: whole for monomial, whole, _ in pairs if whole}
        return sum_of(quotients), sum_of({monomial: rest for monomial, _, rest in pairs if rest})
    lead = leading_monomial(divisor)
    unit = divisor.terms[lead]
    quotient: Size = 0
    remainder = dividend
    while step := _step(terms_of(remainder), lead, unit):
        quotient = quotient + step
        remainder = remainder - step * divisor
    return quotient, remainder


def terms_of(size: Size) -> Mapping[Monomial, int]:
    """The terms of any size, a constant included."""
    if isinstance(size, Dim):
        return size.terms
    return {(): size} if size else {}


def length_of(size: Size) -> int:
    """Returns the number of terms of a size, those inside its floors included."""
    terms = terms_of(size)
    spend(len(terms))
    floors = (atom for monomial in terms for atom in monomial if isinstance(atom, Floor))
    return len(terms) + sum(atom.length for atom in floors)


def variables_of(size: Size) -> frozenset[str]:
    """The names any size depends on, none for a constant."""
    return size.variables() if isinstance(size, Dim) else frozenset()


def in_order(size: Size) -> Size:
    """The same size with its terms in order; those inside of floors are so from the beginning.

    What is computed once for all sizes that are equal is computed of this one, so that its steps do
    not depend on which of them came first.
    """
    if not isinstance(size, Dim) or len(size.terms) == 1:
        return size
    return Dim(
        {monomial: size.terms[monomial] for monomial in sorted(size.terms, key=_rank_of_monomial)}
    )


def leading_monomial(size: Dim) -> Monomial:
    """The monomial of highest degree, and of those the first in order: graded lexicographic."""
    return min(size.terms, key=_rank_of_monomial)


def quotient_of_monomials(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The factors left of `monomial` when those of `divisor` are taken, None if some is missing."""
    spend(1)
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def floors_of(size: Size) -> list[Floor]:
    """The floors among the factors of any size, none for a constant."""
    return size.floors() if isinstance(size, Dim) else []


def is_plainly_nonnegative(size: Size) -> bool:
    """True if a size is >= 0 by its form alone, whatever its variables, which are >= 0."""
    parts = (part for floor in floors_of(size) for part in (floor.numerator, floor.denominator))
    return all(value > 0 for value in terms_of(size).values()) and all(
        map(is_plainly_nonnegative, parts)
    )


def common_monomial(monomials: Iterable[Monomial]) -> Monomial:
    """The factors all monomials share."""
    first, *others = monomials
    common: list[Atom] = []
    left = [list(other) for other in others]
    for atom in first:
        if all(atom in other for other in left):
            common.append(atom)
            for other in left:
                other.remove(atom)
    return tuple(common)


# --- arithmetic on terms -------------------------------------------------------------------------


def _sum(
    left: Mapping[Monomial, int], right: Mapping[Monomial, int], sign: int = 1
) -> dict[Monomial, int]:
    spend(1 + len(right))
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + sign * coefficient
        if value:
            total[monomial] = value
        else:
            del total[monomial]
    require_terms(len(total))
    return total


def _product(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> dict[Monomial, int]:
    spend(2 * len(left) * len(right))
    total: dict[Monomial, int] = {}
    for first, first_coefficient in left.items():
        for second, second_coefficient in right.items():
            monomial = first + second
            if first and second:
                monomial = tuple(sorted(monomial, key=_rank))
            total[monomial] = total.get(monomial, 0) + first_coefficient * second_coefficient
        require_terms(len(total))
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _scaled(size: Dim, factor: int) -> Size:
    spend(len(size.terms))
    if factor == 0:
        return 0
    if factor == 1:
        return size
    return Dim({monomial: factor * value for monomial, value in size.terms.items()})


def _rank(atom: Atom) -> Rank:
    return (0, atom, ()) if isinstance(atom, str) else atom.rank


def _rank_of_monomial(monomial: Monomial) -> tuple[int, tuple[Rank, ...]]:
    """Graded lexicographic order: higher degrees first."""
    return -len(monomial), tuple(map(_rank, monomial))


def _step(terms: Mapping[Monomial, int], lead: Monomial, unit: int) -> Size:
    """The next term of a quotient by a divisor that starts with `unit * lead`, 0 at the end."""
    spend(2 * len(terms))
    cofactors = {
        monomial: cofactor
        for monomial, coefficient in terms.items()
        if coefficient // unit and (cofactor := quotient_of_monomials(monomial, lead)) is not None
    }
    if not cofactors:
        return 0
    first = min(cofactors, key=_rank_of_monomial)
    return sum_of({cofactors[first]: terms[first] // unit})


# --- the normal form of a floor ------------------------------------------------------------------


def _floor(numerator: Size, denominator: Size) -> Size:
    """The floor, which takes the same steps whether or not it was computed before."""
    floor, steps = _measured_floor(numerator, denominator)
    spend(steps)
    return floor


@lru_cache(maxsize=8192)
def _measured_floor(numerator: Size, denominator: Size) -> tuple[Size, int]:
    return measured(lambda: _normal_floor(in_order(numerator), in_order(denominator)))


def _normal_floor(numerator: Size, denominator: Size) -> Size:
    spend(1)
    if isinstance(denominator, int):
        if isinstance(numerator, int) or denominator == 0:
            return numerator // denominator if denominator else _refuse_zero(numerator)
        flip = denominator < 0
    else:
        flip = denominator.terms[leading_monomial(denominator)] < 0
    if flip:
        numerator, denominator = -numerator, -denominator
    whole, rest = divide(numerator, denominator)
    return whole + _proper_floor(rest, denominator)


def _refuse_zero(numerator: Size) -> NoReturn:
    raise ZeroDivisionError(f"the size {show(numerator)} is divided by zero")


def _proper_floor(rest: Size, denominator: Size) -> Size:
    """The floor of a remainder by its divisor."""
    if rest == 0:
        return 0
    if isinstance(rest, int):
        least = _least_where_defined(denominator)
        if -least <= rest < least:
            return 0 if rest > 0 else -1
    for simpler in (_cancelled(rest, denominator), _flattened(rest, denominator)):
        if simpler is not None:
            return _floor(*simpler)
    return Dim({(Floor(in_order(rest), denominator),): 1})


def _cancelled(numerator: Size, denominator: Size) -> tuple[Size, Size] | None:
    """The fraction without a common factor, None if there is none."""
    above, below = terms_of(numerator), terms_of(denominator)
    factor = gcd(*below.values(), *(value for monomial, value in above.items() if monomial))
    constant = above.get((), 0)
    if constant % factor and not is_plainly_nonnegative(denominator):
        factor = gcd(factor, constant)
    shared = common_monomial([*above, *below])
    if factor == 1 and not shared:
        return None
    return _divided_terms(above, factor, shared), _divided_terms(below, factor, shared)


def _divided_terms(terms: Mapping[Monomial, int], factor: int, shared: Monomial) -> Size:
    divided: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        cofactor = quotient_of_monomials(monomial, shared)
        if cofactor is not None and coefficient // factor:
            divided[cofactor] = coefficient // factor
    return sum_of(divided)


def _flattened(numerator: Size, denominator: Size) -> tuple[Size, Size] | None:
    """The fraction with a floor in its numerator dissolved, None if that cannot be done."""
    floors = floors_of(numerator)
    if len(floors) != 1 or not is_plainly_nonnegative(denominator):
        return None
    inner = floors[0]
    rest = numerator - Dim({(inner,): 1})
    if floors_of(rest):
        return None
    return inner.numerator + rest * inner.denominator, inner.denominator * denominator


def _least_where_defined(divisor: Size) -> int:
    """A lower bound of a divisor that is not zero; 0 if none follows from its form."""
    if not is_plainly_nonnegative(divisor):
        return 0
    terms = terms_of(divisor)
    return max(1, terms.get((), 0)) if len(terms) > 1 else next(iter(terms.values()))


def show(size: Size) -> str:
    """The size in source syntax: `2*d`, `(h - 1)//stride + 1`, `ceil(h/32)`, `d % heads`."""
    if isinstance(size, int):
        return str(size)
    spend(2 * len(size.terms))
    first, *others = sorted(_terms(size), key=_order)
    text = f"-{first.product}" if first.is_negative else first.alone
    for term in others:
        text += f" - {term.alone}" if term.is_negative else f" + {term.alone}"
    return text


class _Term(NamedTuple):
    """A term to be written."""

    is_negative: bool
    amount: int
    degree: int
    factors: tuple[str, ...]

    @property
    def product(self) -> str:
        """The term as a factor of a product."""
        number = (str(self.amount),) if self.amount != 1 or not self.factors else ()
        return "*".join(number + self.factors)

    @property
    def alone(self) -> str:
        """The term between `+` and `-`, where a quotient needs no parentheses."""
        text = self.product
        is_quotient = len(self.factors) == 1 and text.startswith("(") and text.endswith(")")
        return text[1:-1] if is_quotient else text


def _order(term: _Term) -> tuple[bool, bool, int, list[str]]:
    """First what is added, then what is taken off, constants last."""
    names = [factor.lstrip("(") for factor in term.factors]
    return term.is_negative, not names, -term.degree, names


def _terms(size: Size) -> Iterator[_Term]:
    """The terms of a size, with remainders written as such."""
    if isinstance(size, int):
        if size:
            yield _Term(size < 0, abs(size), 0, ())
        return
    for floor in size.floors():
        times, rest = _without_remainder(size, floor)
        if times != 0:
            remainder = f"({_operand(floor.numerator)} % {_operand(floor.denominator)})"
            for term in _terms(times):
                yield term._replace(degree=term.degree + 1, factors=(*term.factors, remainder))
            yield from _terms(rest)
            return
    for monomial, amount in size.terms.items():
        yield _Term(amount < 0, abs(amount), len(monomial), _factors(monomial))


def _without_remainder(size: Dim, floor: Floor) -> tuple[Size, Size]:
    """Returns the factor of `A - Q*floor(A/Q)` in a size, and the rest of the size."""
    share, rest = size.split(floor)
    times = -share // floor.denominator
    left = rest - times * floor.numerator
    is_exact = times * floor.denominator == -share
    if is_exact and _length(times) + _length(left) < _length(size):
        return times, left
    return 0, size


def _length(size: Size) -> int:
    return int(size != 0) if isinstance(size, int) else len(size.terms)


def _factors(monomial: Monomial) -> tuple[str, ...]:
    """The factors of a product, each with its power."""
    powers = {atom: monomial.count(atom) for atom in monomial}
    return tuple(_factor(atom) + (f"**{n}" if n > 1 else "") for atom, n in powers.items())


def _factor(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    above, below = atom.numerator, atom.denominator
    if isinstance(below, int):
        raised = above - (below - 1)
        if () not in terms_of(raised):
            return f"ceil({_operand(raised)}/{below})"
    return f"({_operand(above)}//{_operand(below)})"


def _operand(size: Size) -> str:
    text = show(size)
    return f"({text})" if any(mark in text for mark in " */-") else text
