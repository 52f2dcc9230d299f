"""Expressions of real numbers, which may depend on sizes and on indices, the elements of tensors.

A size or an index is a polynomial of `meganeura_dsl.symbolic`. What a tensor holds is unknown: the
element of `x` at `i, j` is `Element("x", (i, j))`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from meganeura_dsl.symbolic.size import Dim, Size, dim

Index = tuple[Size, ...]


class Real:
    """A real number. Of two whole numbers, sums and products are whole numbers."""

    def __add__(self, other: "Real") -> "Real":
        left, right = whole(self), whole(other)
        return Plus(self, other) if left is None or right is None else Whole(left + right)

    def __sub__(self, other: "Real") -> "Real":
        return self + -other

    def __neg__(self) -> "Real":
        return Whole(-1) * self

    def __mul__(self, other: "Real") -> "Real":
        left, right = whole(self), whole(other)
        return Times(self, other) if left is None or right is None else Whole(left * right)

    def __truediv__(self, other: "Real") -> "Real":
        return self * Power(other, Fraction(-1))


@dataclass(frozen=True)
class Whole(Real):
    """An integer that is a polynomial of sizes and indices."""

    size: Size


@dataclass(frozen=True)
class Number(Real):
    """A fraction."""

    value: Fraction


@dataclass(frozen=True)
class Element(Real):
    """An element of an unknown tensor."""

    name: str
    index: Index = ()


@dataclass(frozen=True)
class Plus(Real):
    left: Real
    right: Real


@dataclass(frozen=True)
class Times(Real):
    left: Real
    right: Real


@dataclass(frozen=True)
class Power(Real):
    """A number to a power that is a fraction; where that has no real value, nothing is said."""

    base: Real
    exponent: Fraction


@dataclass(frozen=True)
class Function(Real):
    """A function of one number, by its name."""

    name: str
    argument: Real


@dataclass(frozen=True)
class Over(Real):
    """A sum, a product or the largest of `body` where 0 <= index < size."""

    kind: str
    index: str
    size: Size
    body: Real


@dataclass(frozen=True)
class Condition(Real):
    """1 where an integer is 0 (`==`) or not negative (`>=`), and 0 elsewhere."""

    operator: str
    size: Size


@dataclass(frozen=True)
class Positive(Real):
    """1 where a number is above 0, and 0 elsewhere."""

    argument: Real


@dataclass(frozen=True)
class Zero(Real):
    """1 where a number is 0, and 0 elsewhere."""

    argument: Real


ONE, NOTHING = Whole(1), Whole(0)
_COUNT = count()


def fresh(stem: str) -> str:
    """A name that nothing has."""
    return f"{stem}'{next(_COUNT)}"


def whole(x: Real) -> Size | None:
    """The integer that an expression is by its form, None where it is another one."""
    return x.size if isinstance(x, Whole) else None


def number(value: float | Fraction | Size) -> Real:
    """A number; a float stands for the decimal fraction that is written."""
    if isinstance(value, int | Dim):
        return Whole(value)
    exact = Fraction(repr(value)) if isinstance(value, float) else value
    return Whole(int(exact)) if exact.denominator == 1 else Number(exact)


def over(kind: str, size: Size, body: Callable[[Size], Real]) -> Real:
    """A reduction over an index that is new."""
    index = fresh("k")
    return Over(kind, index, size, body(dim(index)))


def total(shape: Index, body: Callable[[Index], Real]) -> Real:
    """The sum of `body` over all indices of a shape."""
    if not shape:
        return body(())
    return over("sum", shape[0], lambda k: total(shape[1:], lambda rest: body((k, *rest))))


def within(index: Size, size: Size) -> Real:
    """1 where 0 <= index < size, and 0 elsewhere."""
    return Condition(">=", index) * Condition(">=", size - 1 - index)


def compare(kind: str, left: Real, right: Real) -> Real:
    """1 where the relation holds, and 0 elsewhere."""
    difference = left - right
    size = whole(difference)
    if size is None:
        above, below, equal = Positive(difference), Positive(-difference), Zero(difference)
    else:
        above, below = Condition(">=", size - 1), Condition(">=", -size - 1)
        equal = Condition("==", size)
    return {
        "gt": above, "lt": below, "eq": equal,
        "le": ONE - above, "ge": ONE - below, "ne": ONE - equal,
    }[kind]  # fmt: skip


def where(chosen: Real, left: Real, right: Real) -> Real:
    """`left` where `chosen` is 1, `right` where it is 0."""
    return chosen * left + (ONE - chosen) * right
