"""Checks trees that show that a size is >= 0 where all names and some facts are >= 0.

    1                                        no coefficient of the size is negative
    ["cut", M, s, T, source, ...]            M*size + s*(M - 1) - T*source >= 0, M >= 1, T >= 0
    ["least", [[A, Q, least, ...], ...]]     1, once floors are counted from 0 or 1
    ["classes", {"n": 2, ...}, [...]]        a tree for each residue class of some names

A source is the number of a fact; `["low", A, Q, ...]`, which is A - Q*floor(A/Q); `["high", ...]`,
which is what is left of that to Q - 1; or `["shown", size, tree]`. Where `...` stands, trees show
what is asked of the sizes before it.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from meganeura_verify import CertificateError, require
from meganeura_verify.sizes import (
    Poly,
    add,
    constant,
    divisors,
    expand,
    floor,
    frozen,
    is_plain,
    multiply,
    negative,
    number_of,
    polynomial,
    read_size,
    substitute,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = Any
ONE = constant(1)
MOST_CLASSES = 4096


def follow(size: Poly, facts: list[Poly], tree: Json) -> None:
    """Raise `CertificateError` unless a tree shows that `size >= 0`."""
    match tree:
        case 1:
            require(is_plain(size), "a size is not plainly >= 0")
        case ["cut", scale, int(slack), times, source, of_scale, of_times, then]:
            require(slack in (0, 1), "a rest that is too large")
            around = _Sizes(size, facts)
            factor, share = around.positive(scale, of_scale), around.given(times)
            follow(share, facts, of_times)
            scaled = add(multiply(factor, size), add(factor, ONE, -1), slack)
            follow(add(scaled, multiply(share, around.source(source)), -1), facts, then)
        case ["least", list(entries)]:
            require(is_plain(_Sizes(size, facts).counted(entries)), "a size is not plainly >= 0")
        case ["classes", periods, list(trees)]:
            each = classes(periods)
            require(len(each) == len(trees), "a class is missing")
            for values, inner in zip(each, trees, strict=True):
                follow(substitute(size, values), [substitute(f, values) for f in facts], inner)
        case _:
            raise CertificateError("there is no such rule")


class _Sizes:
    """The sizes that a rule introduces where a size is to be shown to be >= 0."""

    def __init__(self, size: Poly, facts: list[Poly]) -> None:
        self.size = size
        self.facts = facts

    def given(self, data: Json) -> Poly:
        """A size, whose divisors must be known not to be 0."""
        found = read_size(data)
        require_divisors(found, [self.size, *self.facts])
        return found

    def positive(self, data: Json, why: Json) -> Poly:
        """A size that is >= 1, or one that is >= 0 and divides something."""
        found = self.given(data)
        number = number_of(found)
        if number is not None:
            require(number >= 1, "a divisor is not positive")
        elif why[0] == "divisor":
            known = set[Any]().union(*map(divisors, [self.size, *self.facts]))
            is_known = frozen(found) in known or frozen(negative(found)) in known
            require(is_known, "a divisor may be 0")
            follow(found, self.facts, why[1])
        else:
            follow(add(found, ONE, -1), self.facts, why[1])
        return found

    def source(self, source: Json) -> Poly:
        """Something that is >= 0."""
        match source:
            case int(place) if 0 <= place < len(self.facts):
                return self.facts[place]
            case ["low" | "high" as side, above, below, of_below]:
                top, divisor = self.given(above), self.positive(below, of_below)
                low = add(top, multiply(divisor, floor(top, divisor)), -1)
                return low if side == "low" else add(add(divisor, ONE, -1), low, -1)
            case ["shown", data, tree]:
                size = self.given(data)
                follow(size, self.facts, tree)
                return size
            case _:
                raise CertificateError("there is nothing to add")

    def counted(self, entries: Json) -> Poly:
        """The size with new factors for floors, counted from 0 or 1."""
        counted: dict[Any, Poly] = {}
        for above, below, least, of_below, of_above in entries:
            top, divisor = self.given(above), self.positive(below, of_below)
            require(type(least) is int and least in (0, 1), "no such least value")
            follow(add(top, divisor, -least), self.facts, of_above)
            ((monomial, value),) = floor(top, divisor).items()
            require(value == 1 and len(monomial) == 1, "this is no floor")
            counted[monomial[0]] = {((2, len(counted)),): 1, **constant(least)}
        return expand(self.size, lambda factor: counted.get(factor, {(factor,): 1}))


def classes(periods: Json) -> list[dict[str, Poly]]:
    """Returns the values of some names in each of their residue classes."""
    steps = [(str(name), int(step)) for name, step in periods.items()]
    require(all(step >= 1 for _, step in steps), "a period is not positive")
    require(prod(step for _, step in steps) <= MOST_CLASSES, "there are too many classes")
    return [
        {
            n: add(constant(rest), read_size(n), step)
            for (n, step), rest in zip(steps, rests, strict=True)
        }
        for rests in product(*(range(step) for _, step in steps))
    ]


def is_apart(size: Poly) -> bool:
    """Returns True if a size is not 0 by its form: it has a sign, or is no multiple of a number."""
    divisor, number = gcd(*(value for monomial, value in size.items() if monomial)), size.get((), 0)
    if number % divisor if divisor else number:
        return True
    return is_plain(add(size, ONE, -1)) or is_plain(add(negative(size), ONE, -1))


def require_divisors(size: Poly, around: Iterable[Poly]) -> None:
    """Raise unless the divisors in a size stand around, or are >= 1 by their form."""
    wanted = divisors(size)
    if wanted:
        known = set[Any]().union(*map(divisors, around))
        plain = (is_plain(add(polynomial(each), ONE, -1)) for each in wanted - known)
        require(all(plain), "a divisor may be 0")
