"""Graphs whose sizes are numbers, over any field: each element by the formula of its op.

`Exact` is the field of normal forms, in which every element of an operand is an unknown. What is
equal there is equal for all real numbers. Where there is an order of unknowns, it says how they
compare.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from functools import cache, reduce
from typing import Any, cast

import numpy as np

from meganeura_dsl.ir.graph import Leaf, Op, Value, dependencies
from meganeura_dsl.ir.ops import Constant
from meganeura_dsl.ir.ops.primitive.loop import CARRY, COLLECTED, ITERATION, Loop
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.egraph.encoding.schema import constructor_name
from tests.proofs.fused_meanings import MEANINGS as FUSED
from tests.proofs.normal_form import Normal
from tests.proofs.opinions import Field, Scalar, value_of
from tests.proofs.ordered_meanings import MEANINGS as ORDERED
from tests.proofs.polynomials import EMPTY, ONE, UNIT, Atom, Polynomial, constant, single
from tests.proofs.primitive_meanings import Meaning
from tests.proofs.reals import number
from tests.proofs.tensors import Scope, Tensor, unknown
from tests.proofs.worlds import World

Array = np.ndarray[Any, np.dtype[Any]]
MEANINGS: Mapping[str, Meaning] = {**FUSED, **ORDERED}
NORMAL = Normal(World())
_NEGLIGIBLE = Fraction(-(10**29))
"""The exponential of a score that is hidden by less than this is taken for 0."""
LARGEST = "largest of "
"""The beginning of the names of unknowns that are the largest of others, in no known order."""


@dataclass(frozen=True)
class Exactly:
    """A normal form without bound indices, with the arithmetic of Python."""

    form: Polynomial

    def __add__(self, other: "Exactly") -> "Exactly":
        return Exactly(self.form + other.form)

    def __sub__(self, other: "Exactly") -> "Exactly":
        return Exactly(self.form - other.form)

    def __mul__(self, other: "Exactly") -> "Exactly":
        return Exactly(NORMAL.product(self.form, other.form))


class Interpreted(Field):
    """A field with arrays of its values, whose elements formulas name; outside of them all is 0."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    @abstractmethod
    def named(self, name: str) -> Scalar:
        """A number that is no element of an array, by its name."""

    def element(self, name: str, index: Sequence[int]) -> Scalar:
        if name not in self.arrays:
            return self.named(name)
        array = self.arrays[name]
        inside = all(0 <= at < size for at, size in zip(index, array.shape, strict=True))
        return array[tuple(index)] if inside else self.number(0)


class Exact(Interpreted):
    """The normal forms of unknown numbers, whose `order` has an integer for each unknown.

    The order is of unknowns and 0. Without one, comparisons are what the normal form makes of them.
    """

    def __init__(self, order: Mapping[Atom, int] | None = None) -> None:
        super().__init__()
        self.order = order

    def named(self, name: str) -> Exactly:
        return Exactly(single(Atom("element", name)))

    def is_nothing(self, x: Exactly) -> bool:
        return not x.form.terms

    def number(self, value: Fraction | int) -> Exactly:
        return _number(Fraction(value))

    def function(self, name: str, x: Exactly) -> Exactly:
        if name == "exp" and x.form.terms.get(UNIT, Fraction(0)) < _NEGLIGIBLE:
            return Exactly(EMPTY)
        if name == "abs":
            minus = Exactly(x.form.scaled(Fraction(-1)))
            return x * (self.is_positive(x) - self.is_positive(minus))
        return Exactly(NORMAL.function(name, x.form))

    def power(self, base: Exactly, exponent: Fraction) -> Exactly:
        return Exactly(NORMAL.power(base.form, exponent))

    def largest(self, values: Sequence[Exactly]) -> Exactly:
        if len(values) == 1:
            return values[0]
        if self.order is not None:
            return reduce(self._larger, values)
        names = sorted({each.form.text for each in values})
        return self.named(f"{LARGEST}{'; '.join(names)}")

    def _larger(self, one: Exactly, other: Exactly) -> Exactly:
        return one if self._sign(one.form - other.form) >= 0 else other

    def is_positive(self, x: Exactly) -> Exactly:
        if self.order is None:
            return Exactly(NORMAL.positive(x.form))
        return Exactly(constant(int(self._sign(x.form) > 0)))

    def is_zero(self, x: Exactly) -> Exactly:
        if self.order is None:
            return Exactly(NORMAL.zero(x.form))
        return Exactly(constant(int(self._sign(x.form) == 0)))

    def _sign(self, x: Polynomial) -> Fraction:
        """The sign of a number, or of a difference of two unknowns or one and 0, by the order."""
        if x.constant is not None:
            return x.constant
        assert self.order is not None
        found = Fraction(0)
        for term, value in x.terms.items():
            ((atom, power),) = term.factors
            assert power == 1, f"the order does not tell the sign of {x.text}"
            found += value * self.order[atom]
        assert len(x.terms) == 1 or sorted(x.terms.values()) == [-1, 1], x.text
        return found


@cache
def _number(value: Fraction) -> Exactly:
    return Exactly(NORMAL.of(number(value)))


def exactly(array: Array) -> Array:
    """Numbers as normal forms."""
    return _each(array, lambda value: Exactly(constant(Fraction(value))))


def unknowns(name: str, shape: tuple[int, ...]) -> Array:
    """An array whose elements are unknown."""
    found = np.empty(shape, object)
    for index in np.ndindex(*shape):
        found[index] = Exactly(single(Atom("element", name, index)))
    return found


def _each(array: Array, f: Callable[[Any], Scalar]) -> Array:
    found = np.empty(array.shape, object)
    for index in np.ndindex(*array.shape):
        found[index] = f(array[index].item())
    return found


def interpret(
    values: Sequence[Value], leaves: Mapping[str, Array], field: Interpreted
) -> dict[int, Array]:
    """The values, and all that they depend on, by their ids."""
    found: dict[int, Array] = {}
    for value in dependencies(values):
        op = value.op
        operands = [found[each.id] for each in value.operands]
        if isinstance(op, Leaf):
            found[value.id] = leaves[op.name]
        elif isinstance(op, Loop):
            found[value.id] = _iterated(op, operands, field)[value.index]
        else:
            types = [each.type for each in value.operands]
            found[value.id] = applied(op, types, operands, value, field)
    return found


def applied(
    op: Op, types: Sequence[TensorType], operands: Sequence[Array], out: Value, field: Interpreted
) -> Array:
    """A result of an op, by its formula."""
    tensor = formula(op, types, out.index)
    assert tensor.dtype == out.type.dtype.value
    shape = concrete_shape(out.type.shape)
    assert concrete_shape(tensor.shape) == shape
    field.arrays = {f"x{place}": each for place, each in enumerate(operands)}
    found = np.empty(shape, object)
    for index in np.ndindex(*shape):
        found[index] = value_of(tensor.at(index), {}, {}, field)
    return found


def formula(op: Op, types: Sequence[TensorType], result: int) -> Tensor:
    """A result of an op of unknown operands x0, x1 and so on."""
    operands = [unknown(f"x{place}", of.dtype.value, of.shape) for place, of in enumerate(types)]
    return meaning(op, len(operands))(Scope(World()), *operands, *attributes(op, result))


def meaning(op: Op, count: int) -> Meaning:
    """The formula of an op with so many operands."""
    kind = type(op)
    return MEANINGS[kind.__name__ if op.operands.variadic else constructor_name(kind, count)]


def attributes(op: Op, result: int) -> Sequence[object]:
    """The fields of an op as formulas take them, and the number of the result if it has several."""
    chosen = [getattr(op, each.name) for each in fields(op)]
    if isinstance(op, Constant):
        chosen[0] = number(int(op.value) if isinstance(op.value, bool) else op.value)
    found: list[object] = [
        each.value if isinstance(each, Enum) else number(each) if isinstance(each, float) else each
        for each in chosen
    ]
    return [*found, result] if op.multiple_results else found


def _iterated(op: Loop, operands: Sequence[Array], field: Interpreted) -> list[Array]:
    """The carries behind the last iteration, and what was collected along its axes."""
    iterations = concrete(op.iterations)
    first, second = op.carried, op.carried + len(op.sliced)
    carries = list(operands[:first])
    collected: dict[int, list[Array]] = {}
    for place in reversed(range(iterations)) if op.backward else range(iterations):
        slices = [
            np.take(each, place, axis)
            for each, axis in zip(operands[first:second], op.sliced, strict=True)
        ]
        parts = [*carries, *map(_boxed, slices), *operands[second:]]
        leaves = {ITERATION: _boxed(field.number(place)), **dict(zip(op.names, parts, strict=True))}
        graph = op.body.graph
        values = interpret(graph.values, leaves, field)
        counts = not op.stops or cast("Exactly", carries[-1][()]).form == ONE
        if counts:
            carries = [values[graph.outputs[f"{CARRY}{n}"].id] for n in range(op.carried)]
        given = (values[graph.outputs[f"{COLLECTED}{n}"].id] for n in range(len(op.collected)))
        collected[place] = [
            each if counts else _each(np.zeros(each.shape, int), field.number) for each in given
        ]
    stacks = [
        np.stack([collected[place][number] for place in range(iterations)], axis)
        for number, axis in enumerate(op.collected)
    ]
    return [*carries, *stacks]


def _boxed(value: Scalar) -> Array:
    """An array of one value, where NumPy gives the value alone."""
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    found = np.empty((), object)
    found[()] = value
    return found
