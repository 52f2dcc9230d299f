"""A layer's recorded application: what it declared and made, in order."""

from dataclasses import dataclass

from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.types import TensorType

Source = int | Tensor
"""The number of an input, parameter or op of the template, or a value from outside of it."""


@dataclass(frozen=True)
class RecordedOp:
    """A result of an op, with the sources of the operands and its type."""

    op: Op
    operands: tuple[Source, ...]
    type: TensorType
    index: int


@dataclass(frozen=True)
class RecordedParameter:
    """A parameter, with its name inside of the layer."""

    relative: str
    info: ParameterInfo


@dataclass(frozen=True)
class Template:
    """One application: what it declared and made, in order, and what became of it."""

    steps: tuple[RecordedOp | RecordedParameter, ...]
    results: tuple[Source, ...]
    updates: tuple[tuple[str, Source], ...]
    layers: tuple[tuple[str, BoundBlock], ...]
    """The labelled layers inside of it, by their paths there."""
