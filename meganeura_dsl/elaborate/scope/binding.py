"""Bindings: the values of names, as the reader of a program sees them."""

from typing import TYPE_CHECKING, NamedTuple

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.types import TensorType

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.values import Tensor


class Binding(NamedTuple):
    """A value a reader of the program can see, and its type: what `meganeura shapes` lists."""

    span: Span
    name: str
    path: str
    type: TensorType


class NamedValue(NamedTuple):
    """A value that has a name."""

    name: str
    """With the path of the layer before it, such as `layers.0.attn`."""
    value: "Tensor"
    is_shown: bool = False
    """True if the program shows it."""
