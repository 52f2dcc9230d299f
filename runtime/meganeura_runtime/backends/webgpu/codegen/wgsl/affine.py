"""Index arithmetic: where an element lies, as a sum of loop variables that is simplified exactly.

Every position a kernel computes is an `Affine`: a constant plus integer multiples of atoms. An atom
is a loop variable, a quotient or remainder of another affine, a guarded position (of a padded or
concatenated value) or a number found in memory (of a gather). Positions are computed modulo 2^32 as
u32, so that a position before the start of an axis is a very large one, and one comparison guards
both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod
from typing import TypeAlias, assert_never

from meganeura_dsl.ir.types import DType

WORD = 1 << 32
KEPT = 1 << 16
"""Results of index arithmetic that are remembered."""


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """An element's value, as a DAG; the kinds are in `expression`.

    Indices and expressions contain each other, so the base stands here. Expressions are made once
    each by `Expressions` and compare by identity; `number` is their rank there.
    """

    number: int
    dtype: DType

    def __repr__(self) -> str:
        return f"#{self.number}"


@dataclass(frozen=True, slots=True)
class Axis:
    """A variable of the kernel: 0 <= name < size."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """floor(numerator / divisor), of a numerator that is never negative."""

    numerator: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """numerator mod divisor, of a numerator that is never negative."""

    numerator: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Inside:
    """The position a guard lets through, and 0 where it lets none."""

    guard: BoundsCheck


@dataclass(frozen=True, slots=True)
class Loaded:
    """An integer computed from memory; a negative one counts as its value modulo 2^32."""

    expression: Expression


Atom: TypeAlias = Axis | Quotient | Remainder | Inside | Loaded


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """Holds where `position` is a multiple of `step` and `position / step` lies in [0, size)."""

    position: Affine
    step: int
    size: int

    @property
    def always_holds(self) -> bool:
        """True if no position can fail."""
        low, high = bounds(self.position)
        return self.step == 1 and low >= 0 and high < self.size

    @property
    def never_holds(self) -> bool:
        """True if every position fails."""
        low, high = bounds(self.position)
        return high < 0 or (low >= self.size * self.step and high < WORD)

    @property
    def index(self) -> Affine:
        """`position / step` where the guard holds, and 0 elsewhere."""
        if self.always_holds:
            return self.position
        return Affine(0) if self.never_holds else variable(Inside(self))


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum of coefficient * atom; no coefficient is 0, and atoms stand in one order.

    Its hash is cached, as those of its parts would be computed again and again.
    """

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.constant, self.terms)))

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        return _sum(self, other)

    def __sub__(self, other: Affine | int) -> Affine:
        return self + other * -1

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine(0)
        scaled = tuple((atom, coefficient * factor) for atom, coefficient in self.terms)
        return Affine(self.constant * factor, scaled)

    def __floordiv__(self, divisor: int) -> Affine:
        return divide(self, divisor)[0]

    def __mod__(self, divisor: int) -> Affine:
        return divide(self, divisor)[1]


Index: TypeAlias = tuple[Affine, ...]


def variable(atom: Atom) -> Affine:
    """The affine that is one atom."""
    return Affine(0, ((atom, 1),))


@lru_cache(KEPT)
def _sum(left: Affine, right: Affine) -> Affine:
    return affine(left.constant + right.constant, (*left.terms, *right.terms))


def affine(constant: int, terms: Iterable[tuple[Atom, int]]) -> Affine:
    """The sum, with equal atoms collected.

    d * (x / d) + x % d is joined to x, and d * ((x / d) % m) + x % d to x % (d * m).
    """
    collected: dict[Atom, int] = {}
    for atom, coefficient in terms:
        collected[atom] = collected.get(atom, 0) + coefficient
    for atom, coefficient in collected.items():
        if isinstance(atom, Remainder) and coefficient:
            whole = divide(atom.numerator, atom.divisor)[0]
            if _holds(collected, whole, coefficient * atom.divisor):
                rest = [(other, count) for other, count in collected.items() if other != atom]
                joined = atom.numerator * coefficient - whole * (coefficient * atom.divisor)
                return affine(constant + joined.constant, (*rest, *joined.terms))
            upper = _remainder_of(collected, whole, coefficient * atom.divisor)
            if upper is not None:
                rest = [(a, count) for a, count in collected.items() if a not in (atom, upper)]
                lower = divide(atom.numerator, atom.divisor * upper.divisor)[1] * coefficient
                return affine(constant + lower.constant, (*rest, *lower.terms))
    kept = [(atom, coefficient) for atom, coefficient in collected.items() if coefficient]
    return Affine(constant, tuple(sorted(kept, key=_order) if len(kept) > 1 else kept))


def _holds(collected: Mapping[Atom, int], whole: Affine, factor: int) -> bool:
    """True if a sum has `factor` times `whole`, the one atom that is left of a division."""
    ((atom, _),) = whole.terms
    return collected.get(atom) == factor


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    atom, coefficient = term
    return -abs(coefficient), _atom_text(atom)


def _remainder_of(collected: Mapping[Atom, int], whole: Affine, factor: int) -> Remainder | None:
    """An atom `whole % m` that is part of a sum `factor` times."""
    return next(
        (
            atom
            for atom, coefficient in collected.items()
            if coefficient == factor and isinstance(atom, Remainder) and atom.numerator == whole
        ),
        None,
    )


@lru_cache(KEPT)
def _atom_text(atom: Atom) -> str:
    match atom:
        case Axis(name, _):
            return name
        case Quotient(numerator, divisor):
            return f"({_text(numerator)})/{divisor}"
        case Remainder(numerator, divisor):
            return f"({_text(numerator)})%{divisor}"
        case Inside(BoundsCheck(position, step, size)):
            return f"[({_text(position)})/{step}<{size}]"
        case Loaded(expression):
            return f"{expression}"
        case _:
            assert_never(atom)


def _text(index: Affine) -> str:
    return "".join(
        [str(index.constant), *(f"{count:+}*{_atom_text(atom)}" for atom, count in index.terms)]
    )


def bounds(index: Affine) -> tuple[int, int]:
    """The least and the greatest value an index can be shown to have."""
    low = high = index.constant
    for atom, coefficient in index.terms:
        first, last = _atom_bounds(atom)
        low += coefficient * (first if coefficient > 0 else last)
        high += coefficient * (last if coefficient > 0 else first)
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    match atom:
        case Axis(_, size):
            return 0, size - 1
        case Quotient(numerator, divisor):
            low, high = bounds(numerator)
            return max(low, 0) // divisor, high // divisor
        case Remainder(_, divisor):
            return 0, divisor - 1
        case Inside(guard):
            return 0, guard.size - 1
        case Loaded():
            return 0, WORD - 1


@lru_cache(KEPT)
def divide(index: Affine, divisor: int) -> tuple[Affine, Affine]:
    """Quotient and remainder of an index that is never negative.

    With index = divisor * whole + rest: rest < divisor settles it; else a common factor g of the
    divisor and of rest's largest coefficients goes out, if what is left of it is small:
    (g*m + c) / d = m / (d/g) for 0 <= c < g.
    """
    if divisor == 1:
        return index, Affine(0)
    whole = [(atom, count // divisor) for atom, count in index.terms if count % divisor == 0]
    parts = tuple((atom, count) for atom, count in index.terms if count % divisor)
    quotient = Affine(index.constant // divisor, tuple(whole))
    rest = Affine(index.constant % divisor, parts)
    low, high = bounds(rest)
    if low >= 0 and high < divisor:
        return quotient, rest
    if low < 0:
        quotient, rest = Affine(0), index
    for size in range(len(rest.terms), 0, -1):
        factor = gcd(divisor, *(count for _, count in rest.terms[:size]))
        small = Affine(rest.constant % factor, rest.terms[size:])
        least, most = bounds(small)
        if factor > 1 and least >= 0 and most < factor:
            large = (rest - small).terms
            left = Affine(rest.constant // factor, tuple((a, n // factor) for a, n in large))
            upper, lower = divide(left, divisor // factor)
            return quotient + upper, lower * factor + small
    upper, lower = _divide_atoms(rest, divisor)
    return quotient + upper, lower


def _divide_atoms(rest: Affine, divisor: int) -> tuple[Affine, Affine]:
    """The division written out, or drawn into the one atom that `rest` is."""
    match rest:
        case Affine(0, ((Quotient(numerator, inner), 1),)):
            # (x / a) / b = x / (a*b)
            return variable(Quotient(numerator, inner * divisor)), variable(
                Remainder(rest, divisor)
            )
        case Affine(0, ((Remainder(numerator, inner), 1),)) if inner % divisor == 0:
            # (x % (a*b)) / b = (x / b) % a, and (x % (a*b)) % b = x % b
            upper, lower = divide(numerator, divisor)
            return divide(upper, inner // divisor)[1], lower
        case _:
            return variable(Quotient(rest, divisor)), variable(Remainder(rest, divisor))


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the distance in memory of neighbours along each axis, in row-major order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def ravel(index: Index, shape: Sequence[int]) -> Affine:
    """The row-major position of an element."""
    return _position(tuple(index), tuple(shape))


@lru_cache(KEPT)
def _position(index: Index, shape: tuple[int, ...]) -> Affine:
    total = Affine(0)
    for position, stride in zip(index, strides(shape), strict=True):
        total = total + position * stride
    return total


def unravel(position: Affine, shape: Sequence[int]) -> Index:
    """The index of the element at a row-major position."""
    return tuple(
        (position // stride) % size if axis else position // stride
        for axis, (stride, size) in enumerate(zip(strides(shape), shape, strict=True))
    )


def atoms(index: Affine) -> Iterable[Atom]:
    """The atoms of an index, without those inside them."""
    return (atom for atom, _ in index.terms)
