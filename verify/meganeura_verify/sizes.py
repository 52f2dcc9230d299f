"""Sizes as certificates write them, in a normal form: integer polynomials over names and floors.

A size is `3`, `"n"`, `["+", ...]`, `["*", ...]` or `["//", above, below]`. A polynomial is a dict
from monomials to coefficients, a monomial a sorted tuple of factors. A factor is `(0, name)` or
`(1, above, below)`, a floor of which everything possible is factored out:

    floor((A*Q + R) / Q)          = A + floor(R / Q)
    floor((g*P + r) / (g*Q))      = floor((P + floor(r / g)) / Q)         g > 0, Q > 0
    floor((floor(P/M) + C) / Q)   = floor((P + C*M) / (M*Q))              Q > 0

Names are integers that are not negative. No divisor is zero.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, Any

from meganeura_verify import CertificateError, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Json = Any
Factor = tuple[Any, ...]
Monomial = tuple[Factor, ...]
Poly = dict[Monomial, int]
MOST_PRODUCTS = 20_000
"""Products of terms in one product; like the other limits, it is for certificates of strangers."""
MOST_FACTORS = 64
LARGEST = 1 << 1024


def constant(number: int) -> Poly:
    """The polynomial that is a number."""
    return {(): number} if number else {}


def number_of(size: Poly) -> int | None:
    """The number that a polynomial is; None if it is not one."""
    return size.get((), 0) if all(each == () for each in size) else None


def add(left: Poly, right: Poly, times: int = 1) -> Poly:
    """`left + times * right`."""
    total = dict(left)
    for monomial, value in right.items():
        total[monomial] = total.get(monomial, 0) + times * value
    return {monomial: value for monomial, value in total.items() if value}


def negative(size: Poly) -> Poly:
    """`-size`."""
    return add({}, size, -1)


def multiply(left: Poly, right: Poly) -> Poly:
    """The product of two polynomials; raises `CertificateError` for one that is too large."""
    require(len(left) * len(right) <= MOST_PRODUCTS, "a size has too many terms")
    total: Poly = {}
    for (first, a), (second, b) in product(left.items(), right.items()):
        monomial = tuple(sorted(first + second))
        total[monomial] = total.get(monomial, 0) + a * b
        require(len(monomial) <= MOST_FACTORS, "a term has too many factors")
    require(all(-LARGEST < value < LARGEST for value in total.values()), "a number is too large")
    return {monomial: value for monomial, value in total.items() if value}


def read_size(data: Json) -> Poly:
    """The polynomial of a size as JSON."""
    match data:
        case bool():
            raise CertificateError(f"{data} is no size")
        case int():
            return constant(data)
        case str():
            return {((0, data),): 1}
        case ["//", above, below]:
            return floor(read_size(above), read_size(below))
        case ["+", *parts]:
            total: Poly = {}
            for part in parts:
                total = add(total, read_size(part))
            return total
        case ["*", *parts]:
            total = constant(1)
            for part in parts:
                total = multiply(total, read_size(part))
            return total
        case _:
            raise CertificateError(f"{data} is no size")


def floors(size: Poly) -> Iterator[Factor]:
    """The floors among the factors, those inside of floors included."""
    for monomial in size:
        for factor in monomial:
            if factor[0] == 1:
                yield factor
                yield from floors(polynomial(factor[1]))
                yield from floors(polynomial(factor[2]))


def names(size: Poly) -> set[str]:
    """The names a size depends on."""
    inside = (factor for monomial in size for factor in monomial)
    found = {factor[1] for factor in inside if factor[0] == 0}
    return found.union(
        *({*names(polynomial(f[1])), *names(polynomial(f[2]))} for f in floors(size))
    )


def divisors(size: Poly) -> set[tuple[Any, ...]]:
    """The divisors of all floors, apart from numbers."""
    return {factor[2] for factor in floors(size) if number_of(polynomial(factor[2])) is None}


def frozen(size: Poly) -> tuple[Any, ...]:
    """The terms in order: higher degrees first."""
    return tuple(sorted(((-len(monomial), monomial), value) for monomial, value in size.items()))


def polynomial(terms: tuple[Any, ...]) -> Poly:
    """The polynomial of terms in order."""
    return {monomial: value for (_, monomial), value in terms}


def substitute(size: Poly, values: Mapping[str, Poly]) -> Poly:
    """The size with names replaced by other sizes, all at once."""

    def change(factor: Factor) -> Poly:
        if factor[0] == 0:
            return values.get(factor[1], {(factor,): 1})
        return floor(*(substitute(polynomial(part), values) for part in factor[1:]))

    return expand(size, change) if values else size


def expand(size: Poly, change: Callable[[Factor], Poly]) -> Poly:
    """The size with each factor replaced by a size."""
    total: Poly = {}
    for monomial, value in size.items():
        term = constant(value)
        for factor in monomial:
            term = multiply(term, change(factor))
        total = add(total, term)
    return total


def is_plain(size: Poly) -> bool:
    """Returns True if no coefficient of a size is negative, also inside of floors: it is >= 0."""
    parts = (part for monomial in size for f in monomial if f[0] == 1 for part in f[1:])
    return all(value > 0 for value in size.values()) and all(is_plain(polynomial(p)) for p in parts)


def divide(dividend: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Quotient and remainder, of which no term is divisible by the leading one of the divisor."""
    number = number_of(divisor)
    if number is not None:
        pairs = {monomial: divmod(value, number) for monomial, value in dividend.items()}
        quotient = {monomial: pair[0] for monomial, pair in pairs.items() if pair[0]}
        return quotient, {monomial: pair[1] for monomial, pair in pairs.items() if pair[1]}
    (_, lead), unit = frozen(divisor)[0]
    quotient, rest = {}, dividend
    while True:
        for (_, monomial), value in frozen(rest):
            left = _without(monomial, lead)
            if left is not None and value // unit:
                step = {left: value // unit}
                break
        else:
            return quotient, rest
        quotient, rest = add(quotient, step), add(rest, multiply(step, divisor), -1)


def floor(above: Poly, below: Poly) -> Poly:
    """The normal form of a floor; raises `CertificateError` for a divisor 0."""
    return dict(_floor(frozen(above), frozen(below)))


@lru_cache(maxsize=8192)
def _floor(above_terms: tuple[Any, ...], below_terms: tuple[Any, ...]) -> Poly:
    require(bool(below_terms), "a division by zero")
    above, below = polynomial(above_terms), polynomial(below_terms)
    if below_terms[0][1] < 0:
        above, below = add({}, above, -1), add({}, below, -1)
    whole, rest = divide(above, below)
    return add(whole, _proper(rest, below))


def _proper(rest: Poly, below: Poly) -> Poly:
    """The floor of a remainder by its divisor."""
    number = number_of(rest)
    if number == 0:
        return {}
    is_positive = is_plain(below)
    if number is not None and is_positive:
        least = max(1, below.get((), 0)) if len(below) > 1 else next(iter(below.values()))
        if -least <= number < least:
            return constant(0 if number > 0 else -1)
    weights = [*below.values(), *(value for monomial, value in rest.items() if monomial)]
    factor = gcd(*weights)
    if not is_positive:
        factor = gcd(factor, rest.get((), 0))
    shared = _common([*rest, *below])
    if factor > 1 or shared:
        return floor(_divided(rest, factor, shared), _divided(below, factor, shared))
    inner = list(dict.fromkeys(f for monomial in rest for f in monomial if f[0] == 1))
    if len(inner) == 1 and is_positive and rest.get((inner[0],)) == 1:
        left = add(rest, {(inner[0],): 1}, -1)
        if not any(f[0] == 1 for monomial in left for f in monomial):
            above, divisor = polynomial(inner[0][1]), polynomial(inner[0][2])
            return floor(add(above, multiply(left, divisor)), multiply(divisor, below))
    return {((1, frozen(rest), frozen(below)),): 1}


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The factors left when those of a divisor are taken; None if some is missing."""
    left = list(monomial)
    for factor in divisor:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _common(monomials: list[Monomial]) -> Monomial:
    """The factors that all monomials share."""
    shared = monomials[0]
    for monomial in monomials[1:]:
        left, kept = list(monomial), []
        for factor in shared:
            if factor in left:
                left.remove(factor)
                kept.append(factor)
        shared = tuple(kept)
    return shared


def _divided(size: Poly, factor: int, shared: Monomial) -> Poly:
    """The terms without shared factors; what is no multiple of the number is rounded down."""
    total: Poly = {}
    for monomial, value in size.items():
        left = _without(monomial, shared)
        if left is not None and value // factor:
            total[left] = value // factor
    return total
