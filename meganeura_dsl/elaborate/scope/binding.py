"""Bindings: the values of names, as the reader of a program sees them."""

from typing import NamedTuple

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.types import TensorType


class Binding(NamedTuple):
    """A value a reader of the program can see, and its type: what `meganeura shapes` lists."""

    span: Span
    name: str
    path: str
    type: TensorType
