"""Values of expressions in an elaboration: sizes, numbers, tensors and layers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self, TypeGuard

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.initializers import Initializer, spell
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Flag, Not, Or
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast


class Opaque(Enum):
    """A number that depends on symbolic sizes in a way dims cannot express, such as `d ** -0.5`."""

    NUMBER = "number"


@dataclass(frozen=True)
class OpenText:
    """A text of the configuration in a proof, by its name."""

    name: str


class Axes(tuple[Size, ...]):
    """The sizes of a rest `...spatial`; arithmetic applies to each of them."""

    __slots__ = ()


@dataclass(frozen=True)
class Invocation:
    """A setting that is a call, such as `adam(lr=1e-3)`: a name and its arguments, as data."""

    name: str
    arguments: dict[str, "StaticValue"]
    positional: tuple["StaticValue", ...] = ()


@dataclass(frozen=True)
class Pattern:
    """A rearrangement, not yet resolved: its names are bound by the shape of a tensor."""

    node: ast.Rearrangement


FUNCTIONS = "<functions>"
"""The text, and no file, that built-in functions stand in where they are given as blocks."""


@dataclass(frozen=True)
class BlockValue:
    """A block as a value: its name, or a call that gives it configuration and no tensor."""

    declaration: ast.Block | ast.Model
    config: tuple[tuple[str, "StaticValue"], ...] = ()
    """The configuration it was given, by name."""
    path: str | None = None
    """The path of its weights, if it is a layer."""
    is_contract: bool = False
    """True if, in a proof, it stands for every block that fits its header."""
    span: Span | None = field(default=None, compare=False)
    """The place where it was written as a value."""

    @property
    def name(self) -> str:
        """The name it was declared under."""
        return self.declaration.name.text

    def __repr__(self) -> str:
        """Its name, file and configuration, which tell it from others."""
        source = self.declaration.span.source.name
        return f"{source}:{self.name}({', '.join(f'{k}={v!r}' for k, v in self.config)})"


SymbolicCondition = Compare | Flag | Not | And | Or
StaticValue = (
    int
    | Dim
    | float
    | bool
    | str
    | OpenText
    | list["StaticValue"]
    | Axes
    | SymbolicCondition
    | Opaque
    | Invocation
    | Initializer
    | BlockValue
)
Tensor = Value


@dataclass(frozen=True)
class TensorList:
    """A list that holds tensors. Its length is known, and it never leaves its block."""

    items: tuple[Tensor, ...]


@dataclass(frozen=True)
class NamedTensors:
    """Several tensors with a name each as one value, which never leaves its block."""

    layer: str
    """The layer that they are of, as it is written."""
    items: tuple[tuple[str, Tensor], ...]
    """The tensors by name, in the order of their declaration."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors without their names."""
        return tuple(tensor for _, tensor in self.items)

    @property
    def names(self) -> tuple[str, ...]:
        """The names without their tensors."""
        return tuple(name for name, _ in self.items)

    def changed(self, tensors: Sequence[Tensor]) -> Self:
        """Returns a value of the same names with other tensors."""
        return replace(self, items=tuple(zip(self.names, tensors, strict=True)))


@dataclass(frozen=True)
class LayerWeights(NamedTensors):
    """Trained parameters of a layer, by their names inside of the layer."""

    is_changed: bool = False
    """False of what the layer has itself, as long as it has no name of its own."""

    def changed(self, tensors: Sequence[Tensor]) -> Self:
        """Returns weights of the same names with other tensors."""
        return replace(super().changed(tensors), is_changed=True)


@dataclass(frozen=True)
class NamedResults(NamedTensors):
    """Several results of a block, by the names that its signature has for them."""


Results = tuple[Tensor, ...]
"""The results of a block."""
ElabValue = StaticValue | Tensor | TensorList | NamedTensors | Pattern | tuple[Tensor, ...]


def is_size(value: ElabValue) -> TypeGuard[Size]:
    """True if the value can be the size of an axis."""
    return isinstance(value, (int, Dim)) and not isinstance(value, bool)


def is_number(value: ElabValue) -> TypeGuard[int | float | Dim | Opaque]:
    """True if the value is a number, known or symbolic."""
    return isinstance(value, (int, float, Dim, Opaque)) and not isinstance(value, bool)


def is_condition(value: ElabValue) -> TypeGuard[Condition]:
    """True if the value is true, false or a condition on sizes."""
    return isinstance(value, (bool, Compare, Flag, Not, And, Or))


def is_symbolic(value: ElabValue) -> TypeGuard[SymbolicCondition]:
    """True if the value is a condition on sizes that is neither true nor false yet."""
    return isinstance(value, (Compare, Flag, Not, And, Or))


def is_initializer(value: ElabValue) -> TypeGuard[Initializer]:
    """True if the value is what a parameter begins as, and not merely a number."""
    return isinstance(value, Initializer)


def is_tensor(value: ElabValue) -> TypeGuard[Tensor]:
    """True if the value is a tensor of the graph."""
    return isinstance(value, Value)


_ASSUMED = "#"
"""Prefix of the names of inputs that stand for tensors of which a proof knows the type alone."""


def assumed_tensor(build: Builder, of: TensorType) -> Tensor:
    """Returns a new tensor of which nothing is known but its type."""
    return build.add(Input(f"{_ASSUMED}{build.count}", of.dtype, of.shape))


def is_assumed_tensor(value: Tensor) -> bool:
    """Returns True if nothing is known of a tensor but its type."""
    return isinstance(value.op, Input) and value.op.name.startswith(_ASSUMED)


def is_static(value: ElabValue) -> TypeGuard[StaticValue]:
    """True if the value is known before any data is."""
    return isinstance(value, Axes) or not isinstance(
        value, (Value, TensorList, NamedTensors, Pattern, tuple)
    )


def describe(value: ElabValue) -> str:
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
        case Opaque():
            return "a number"
        case str():
            return f'the text "{value}"'
        case OpenText(name):
            return f"the text `{name}`"
        case list():
            return f"a list of {len(value)}"
        case TensorList(items):
            return f"a list of {len(items)} tensor{'' if len(items) == 1 else 's'}"
        case LayerWeights(layer):
            return f"the weights of `{layer}`"
        case NamedTensors(layer, items):
            return f"{len(items)} results of `{layer}`"
        case Axes():
            return f"the axes {show_shape(value)}"
        case Invocation():
            return f"the call {value.name}(...)"
        case Pattern():
            return "a rearrangement"
        case BlockValue():
            return f"the {_word_for(value)} `{value.path or value.name}`"
        case tuple():
            return f"{len(value)} results"
        case _:
            return f"the initial value {spell(value)}"


def _word_for(value: BlockValue) -> str:
    if value.path is not None:
        return "layer"
    return "function" if value.declaration.span.source.name == FUNCTIONS else "block"


def show_shape(shape: Sequence[Size]) -> str:
    """A shape as people write it: `[n, 3, h, w]`."""
    return f"[{', '.join(show(size) for size in shape)}]"
