"""Expressions of one invocation for one element, as a DAG that is written out by `emitter`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Atom,
    Axis,
    BoundsCheck,
    Expression,
    Index,
    Inside,
    Loaded,
    Quotient,
    Remainder,
    variable,
)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Load(Expression):
    """An element of a tensor in memory, by its row-major position."""

    tensor: int
    index: Affine


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Literal(Expression):
    """A constant."""

    value: float | int | bool


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Number(Expression):
    """A position as an integer value."""

    index: Affine


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Call(Expression):
    """WGSL text with `{0}`, `{1}` ... where the operands stand."""

    template: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Choice(Expression):
    """One value where a guard holds, another elsewhere; both are computed."""

    guard: BoundsCheck
    inside: Expression
    outside: Expression


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Register(Expression):
    """A variable of the kernel, such as a finished sum."""

    name: str


class Expressions:
    """Makes expressions, equal ones once.

    A choice that is certain is none, unless `keep_choices`: whether that can be seen depends on
    how a kernel counts its elements, and so it is no property of the graph.
    """

    def __init__(self, *, keep_choices: bool = False) -> None:
        self._interned: dict[tuple[object, ...], Expression] = {}
        self._keep_choices = keep_choices

    def load(self, tensor: int, index: Affine, dtype: DType) -> Expression:
        """The element of `tensor` at a row-major position."""
        return self._intern(("load", tensor, index), lambda n: Load(n, dtype, tensor, index))

    def literal(self, value: float | bool, dtype: DType) -> Expression:  # noqa: FBT001 a value, not a flag
        """A constant; 0.0 and -0.0 differ, and so do 1 and true."""
        return self._intern(("literal", repr(value), dtype), lambda n: Literal(n, dtype, value))

    def number(self, index: Affine, dtype: DType) -> Expression:
        """A position as a value of an integer type."""
        return self._intern(("number", index, dtype), lambda n: Number(n, dtype, index))

    def call(self, template: str, dtype: DType, *operands: Expression) -> Expression:
        """`template` with the operands in the places of `{0}`, `{1}` ..."""
        key = ("call", template, dtype, *(operand.number for operand in operands))
        return self._intern(key, lambda n: Call(n, dtype, template, operands))

    def choice(self, guard: BoundsCheck, inside: Expression, outside: Expression) -> Expression:
        """`inside` where the guard holds, `outside` elsewhere."""
        if not self._keep_choices and (guard.always_holds or guard.never_holds):
            return inside if guard.always_holds else outside
        key = ("choice", guard, inside.number, outside.number)
        return self._intern(key, lambda n: Choice(n, inside.dtype, guard, inside, outside))

    def register(self, name: str, dtype: DType) -> Expression:
        """A variable that the kernel declares."""
        return self._intern(("register", name), lambda n: Register(n, dtype, name))

    def _intern(self, key: tuple[object, ...], make: _Make) -> Expression:
        known = self._interned.get(key)
        if known is None:
            known = self._interned[key] = make(len(self._interned))
        return known


class _Make(Protocol):
    def __call__(self, number: int, /) -> Expression: ...


class ElementReader(Protocol):
    """Gives the element of a value at an index, whether it is stored or computed on the spot."""

    @property
    def make(self) -> Expressions:
        """The factory of expressions."""
        ...

    def at(self, value: Value, index: Index) -> Expression:
        """The element of `value` at `index`."""
        ...


def integer(expression: Expression) -> Affine:
    """An integer value as a position; a negative one counts as its value modulo 2^32."""
    return expression.index if isinstance(expression, Number) else variable(Loaded(expression))


def guarded(make: Expressions, guards: Sequence[BoundsCheck], inside: Expression) -> Expression:
    """`inside` where all guards hold, and a zero of its type elsewhere."""
    zero = make.literal(0, inside.dtype)
    for guard in guards:
        inside = make.choice(guard, inside, zero)
    return inside


def walk(roots: Sequence[Expression]) -> Iterator[Expression]:
    """Every expression the roots are made of, each once, those inside indices included."""
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        expression = stack.pop()
        if expression.number not in seen:
            seen.add(expression.number)
            yield expression
            stack.extend(reversed(list(parts(expression))))


def parts(expression: Expression) -> Iterator[Expression]:
    """The expressions an expression is directly made of, those inside its index included."""
    match expression:
        case Load(index=index) | Number(index=index):
            yield from _inside(index)
        case Call(operands=operands):
            yield from operands
        case Choice(guard=guard, inside=inside, outside=outside):
            yield from _inside(guard.position)
            yield inside
            yield outside
        case _:
            return


def _inside(index: Affine) -> Iterator[Expression]:
    for atom, _ in index.terms:
        yield from _inside_atom(atom)


def _inside_atom(atom: Atom) -> Iterator[Expression]:
    match atom:
        case Axis():
            return
        case Quotient(numerator, _) | Remainder(numerator, _):
            yield from _inside(numerator)
        case Inside(guard):
            yield from _inside(guard.position)
        case Loaded(expression):
            yield expression
