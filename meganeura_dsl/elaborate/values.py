"""What an expression can be while a program is elaborated: sizes, numbers, tensors and layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeGuard

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.initializers import Initializer, spell
from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Flag, Not, Or
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast


class Unknown(Enum):
    """A number that depends on symbolic sizes in a way dims cannot express, such as `d ** -0.5`."""

    NUMBER = "number"


class Axes(tuple[Size, ...]):
    """The sizes of a rest `...spatial`; arithmetic applies to each of them."""

    __slots__ = ()


@dataclass(frozen=True)
class Invocation:
    """A setting that is a call, such as `adam(lr=1e-3)`: a name and its arguments, as data."""

    name: str
    arguments: dict[str, "Static"]
    positional: tuple["Static", ...] = ()


@dataclass(frozen=True)
class Pattern:
    """A rearrangement, not yet resolved: its names are bound by the shape of a tensor."""

    node: ast.Rearrangement


SymbolicCondition = Compare | Flag | Not | And | Or
Static = (
    int
    | Dim
    | float
    | bool
    | str
    | list["Static"]
    | Axes
    | SymbolicCondition
    | Unknown
    | Invocation
    | Initializer
)
Tensor = Value
Evaluated = Static | Tensor | Pattern | tuple[Tensor, ...]


def is_size(value: Evaluated) -> TypeGuard[Size]:
    """Whether the value can be the size of an axis."""
    return isinstance(value, int | Dim) and not isinstance(value, bool)


def is_number(value: Evaluated) -> TypeGuard[int | float | Dim | Unknown]:
    """Whether the value is a number, known or symbolic."""
    return isinstance(value, int | float | Dim | Unknown) and not isinstance(value, bool)


def is_condition(value: Evaluated) -> TypeGuard[Condition]:
    """Whether the value is true, false or a condition on sizes."""
    return isinstance(value, bool | Compare | Flag | Not | And | Or)


def is_symbolic(value: Evaluated) -> TypeGuard[SymbolicCondition]:
    """Whether the value is a condition on sizes that is neither true nor false yet."""
    return isinstance(value, Compare | Flag | Not | And | Or)


def is_initializer(value: Evaluated) -> TypeGuard[Initializer]:
    """Whether the value is what a parameter begins as, and not merely a number."""
    return isinstance(value, Initializer)


def is_tensor(value: Evaluated) -> TypeGuard[Tensor]:
    """Whether the value is a tensor of the graph."""
    return isinstance(value, Value)


def is_static(value: Evaluated) -> TypeGuard[Static]:
    """Whether the value is known before any data is."""
    return isinstance(value, Axes) or not isinstance(value, Value | Pattern | tuple)


def describe(value: Evaluated) -> str:
    """A description of a value for messages: `the tensor f32[n, 3]`, `the size h//2`."""
    match value:
        case Value():
            return f"the tensor {value.type}"
        case bool() | Compare() | Flag() | Not() | And() | Or():
            return "a condition"
        case int() | Dim():
            return f"the size {show(value)}"
        case float():
            return f"the number {value!r}"
        case Unknown():
            return "a number"
        case str():
            return f'the text "{value}"'
        case list():
            return f"a list of {len(value)}"
        case Axes():
            return f"the axes {show_shape(value)}"
        case Invocation():
            return f"the call {value.name}(...)"
        case Pattern():
            return "a rearrangement"
        case tuple():
            return f"{len(value)} results"
        case _:
            return f"the initial value {spell(value)}"


def show_shape(shape: Sequence[Size]) -> str:
    """A shape as people write it: `[n, 3, h, w]`."""
    return f"[{', '.join(show(size) for size in shape)}]"
