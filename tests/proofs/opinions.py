"""Second opinions: both sides of a claim at some sizes, without the normal form.

Z3 is asked for real numbers, at these sizes, at which they differ; and they are computed in floats.
"""

import math
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import z3

from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS
from meganeura_dsl.symbolic.size import Size, dim, evaluate
from tests.proofs.polynomials import names_of
from tests.proofs.reals import (
    Condition,
    Element,
    Function,
    Number,
    Over,
    Plus,
    Positive,
    Power,
    Real,
    Times,
    Whole,
    Zero,
)
from tests.proofs.rules import Claim
from tests.proofs.winograd import Matrix, exact_matrices

Matrices = Mapping[str, Matrix]
Sizes = dict[str, int]
Scalar = Any
"""A number, or a term of Z3, which has no types."""
MILLISECONDS = 5_000
"""The time that Z3 has for a claim; most take some."""
_TRIALS = 20_000


class Field(ABC):
    """Where expressions have their values; the values have the arithmetic of Python."""

    @abstractmethod
    def number(self, value: Fraction | int) -> Scalar: ...

    @abstractmethod
    def element(self, name: str, index: Sequence[int]) -> Scalar: ...

    @abstractmethod
    def function(self, name: str, x: Scalar) -> Scalar: ...

    @abstractmethod
    def power(self, base: Scalar, exponent: Fraction) -> Scalar: ...

    @abstractmethod
    def largest(self, values: Sequence[Scalar]) -> Scalar: ...

    @abstractmethod
    def is_positive(self, x: Scalar) -> Scalar: ...

    @abstractmethod
    def is_zero(self, x: Scalar) -> Scalar: ...

    def is_nothing(self, x: Scalar) -> bool:
        """True if a value is known to be 0, whatever it is multiplied with."""
        return False


class Floats(Field):
    """Values are floats; an element is drawn for its name and index, from `least` to 1.75."""

    def __init__(self, least: float, known: Matrices) -> None:
        self.least = least
        self.known = known

    def number(self, value: Fraction | int) -> float:
        return float(value)

    def element(self, name: str, index: Sequence[int]) -> float:
        if name in self.known:
            return float(_item(self.known[name], index))
        return random.Random(repr((name, *index))).uniform(self.least, 1.75)

    def function(self, name: str, x: float) -> float:
        return _FLOATS[name](x)

    def power(self, base: float, exponent: Fraction) -> float:
        return math.pow(base, exponent)

    def largest(self, values: Sequence[float]) -> float:
        return max(values)

    def is_positive(self, x: float) -> float:
        return float(x > 0)

    def is_zero(self, x: float) -> float:
        return float(x == 0)

    def is_nothing(self, x: float) -> bool:
        return x == 0


class Terms(Field):
    """Values are terms of Z3: elements are unknowns, and functions are uninterpreted."""

    def __init__(self, known: Matrices) -> None:
        self.known = known
        self.conditions: list[Scalar] = []
        """The conditions under which all values are defined: what is divided by is not 0."""

    def number(self, value: Scalar) -> Scalar:
        return z3.RealVal(str(value))

    def element(self, name: str, index: Sequence[int]) -> Scalar:
        if name in self.known:
            return self.number(_item(self.known[name], index))
        return z3.Real(f"{name}{tuple(index)}")

    def function(self, name: str, x: Scalar) -> Scalar:
        match name:
            case "abs":
                return z3.If(x >= 0, x, -x)
            case "sqrt":
                return self.power(x, Fraction(1, 2))
            case "log1p":
                return self.function("log", 1 + x)
            case "expm1":
                return self.function("exp", x) - 1
            case "logistic":
                return 1 / (1 + self.function("exp", -x))
            case _:
                pass
        return z3.Function(name, z3.RealSort(), z3.RealSort())(x)

    def power(self, base: Scalar, exponent: Scalar) -> Scalar:
        if exponent == -1:
            self.conditions.append(base != 0)
            return 1 / base
        root = z3.Function(f"power {exponent}", z3.RealSort(), z3.RealSort())
        return root(base)

    def largest(self, values: Sequence[Scalar]) -> Scalar:
        return reduce(_larger, values)

    def is_positive(self, x: Scalar) -> Scalar:
        return z3.If(x > 0, z3.RealVal(1), z3.RealVal(0))

    def is_zero(self, x: Scalar) -> Scalar:
        return z3.If(x == 0, z3.RealVal(1), z3.RealVal(0))


def _larger(one: Scalar, other: Scalar) -> Scalar:
    return z3.If(one >= other, one, other)


_FLOATS: dict[str, Callable[[float], float]] = {
    **{
        name: getattr(math, name)
        for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf", "floor")
    },
    "abs": abs,
    "round": lambda x: float(round(x)),
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
}


def value_of(x: Real, sizes: Sizes, numbers: Mapping[str, Real], field: Field) -> Scalar:
    """The value of an expression where its sizes and indices are numbers."""
    match x:
        case Whole(size):
            return field.number(evaluate(size, sizes))
        case Number(value):
            return field.number(value)
        case Element(name, ()) if name in numbers:
            return value_of(numbers[name], sizes, numbers, field)
        case Element(name, index):
            return field.element(name, [evaluate(each, sizes) for each in index])
        case Plus(left, right):
            return value_of(left, sizes, numbers, field) + value_of(right, sizes, numbers, field)
        case Times(left, right):
            other = value_of(right, sizes, numbers, field)
            if field.is_nothing(other):
                return other
            one = value_of(left, sizes, numbers, field)
            return one if field.is_nothing(one) else one * other
        case Power(base, exponent):
            return field.power(value_of(base, sizes, numbers, field), exponent)
        case Function(name, argument):
            return field.function(name, value_of(argument, sizes, numbers, field))
        case Over(kind, index, size, body):
            count = evaluate(size, sizes)
            parts = [
                value_of(body, {**sizes, index: place}, numbers, field) for place in range(count)
            ]
            if kind == "sum":
                return reduce(operator.add, parts, field.number(0))
            return field.largest(parts)
        case Condition(operation, size):
            found = evaluate(size, sizes)
            return field.number(int(found == 0 if operation == "==" else found >= 0))
        case Positive(argument):
            return field.is_positive(value_of(argument, sizes, numbers, field))
        case Zero(argument):
            return field.is_zero(value_of(argument, sizes, numbers, field))
        case _:
            raise TypeError(f"{x!r} is no expression")


def some_sizes(claim: Claim, seed: int) -> Sizes | None:
    """Small sizes for which a claim says something; None if none were found."""
    world, drawn = claim.world, random.Random(seed)
    index = tuple(dim(f"i{axis}") for axis in range(claim.left.rank))
    wanted: list[Size] = [*claim.left.shape]
    for side in (claim.left, claim.right):
        wanted += _sizes_in(side.at(index), claim.instance.numbers)
    wanted += [each.left for each in world.known]
    wanted += [*world.solved.values(), *(size for pair in world.products for size in pair)]
    wanted = [*map(world.normal, wanted), *(whole for whole, _ in world.products)]
    names = sorted({name for size in wanted for name in names_of(size)} - world.solved.keys())
    for trial in range(_TRIALS):
        most = 2 + (trial % 3)
        free = {name: drawn.randint(world.least.get(name, 1), most) for name in names}
        sizes = {
            **free,
            **{name: evaluate(world.normal(size), free) for name, size in world.solved.items()},
        }
        if _is_possible(claim, sizes):
            return sizes
    return None


def _is_possible(claim: Claim, sizes: Sizes) -> bool:
    world = claim.world
    return (
        all(evaluate(each.left, sizes) >= 0 for each in world.known)
        and all(evaluate(whole, sizes) == evaluate(size, sizes) for whole, size in world.products)
        and all(sizes[name] >= world.least.get(name, 1) for name in world.solved)
        and ("tiles" not in claim.instance.bound or _outputs(claim, sizes) == min(POINTS))
    )


def _outputs(claim: Claim, sizes: Sizes) -> int:
    """The outputs of Winograd's tiles."""
    return evaluate(claim.instance.bound["m"], sizes)


def _sizes_in(x: Real, numbers: Mapping[str, Real]) -> Iterator[Size]:
    match x:
        case Whole(size) | Condition(_, size):
            yield size
        case Element(name, index):
            yield from index
            if name in numbers:
                yield from _sizes_in(numbers[name], {})
        case Plus(left, right) | Times(left, right):
            yield from _sizes_in(left, numbers)
            yield from _sizes_in(right, numbers)
        case Over(_, _, size, body):
            yield size
            yield from _sizes_in(body, numbers)
        case Power(inside, _) | Function(_, inside) | Positive(inside) | Zero(inside):
            yield from _sizes_in(inside, numbers)
        case _:
            pass


def places(claim: Claim, sizes: Sizes, most: int, seed: int) -> Iterator[tuple[int, ...]]:
    """The indices of some elements of a claim."""
    shape = [evaluate(claim.world.normal(size), sizes) for size in claim.left.shape]
    every = list(product(*map(range, shape)))
    yield from random.Random(seed).sample(every, min(most, len(every)))


def agrees_with_floats(claim: Claim, sizes: Sizes, place: tuple[int, ...]) -> bool:
    """True if both sides are equal at an element, but for rounding."""
    known = _matrices(claim, sizes)
    try:
        left, right = _values(claim, sizes, place, Floats(-1.5, known))
    except (ValueError, TypeError):  # a root or a logarithm of what is negative
        left, right = _values(claim, sizes, place, Floats(0.25, known))
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


def asked_of_z3(claim: Claim, sizes: Sizes, place: tuple[int, ...]) -> z3.CheckSatResult:
    """The answer of Z3 to where both sides differ at an element: `unsat` if nowhere."""
    terms = Terms(_matrices(claim, sizes))
    left, right = _values(claim, sizes, place, terms)
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(*terms.conditions, z3.simplify(left - right, som=True) != 0)
    return solver.check()


def _matrices(claim: Claim, sizes: Sizes) -> Matrices:
    if "tiles" not in claim.instance.bound:
        return {}
    return exact_matrices(_outputs(claim, sizes))


def _item(matrix: Matrix, index: Sequence[int]) -> Fraction:
    row, column = index
    is_inside = 0 <= row < len(matrix) and 0 <= column < len(matrix[0])
    return matrix[row][column] if is_inside else Fraction(0)


def _values(
    claim: Claim, sizes: Sizes, place: tuple[int, ...], field: Field
) -> tuple[Scalar, Scalar]:
    numbers = claim.instance.numbers
    left, right = (
        value_of(side.at(place), sizes, numbers, field) for side in (claim.left, claim.right)
    )
    return left, right
