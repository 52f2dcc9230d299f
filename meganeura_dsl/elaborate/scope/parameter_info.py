"""One tensor of the checkpoint, as elaboration declares it."""

from __future__ import annotations

from typing import NamedTuple

from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.ir.initializers import Initializer
from meganeura_dsl.ir.ops.primitive.leaf import Kind
from meganeura_dsl.ir.types import TensorType


class ParameterInfo(NamedTuple):
    """One tensor of the checkpoint: its name, type and kind, and what it starts as.

    `stored` is the element type in files; it differs from the computed one for i64 counters.
    `begins_as` names the parameter of which it begins as a copy, if it does.
    """

    name: str
    type: TensorType
    kind: Kind
    stored: str
    initializer: Initializer
    location: Location
    begins_as: str = ""

    def named(self, name: str) -> ParameterInfo:
        """The same under another name."""
        return ParameterInfo(name, *self[1:])

    @property
    def drawn_as(self) -> str:
        """The name that its first value is drawn for."""
        return self.begins_as or self.name
