"""Outputs that have a role in running a graph, beside those that a program names.

An output is known by its name. The name of one that has a role is an object of a class below: a
`str` for all who only carry outputs from one graph to the next, and its class and fields for those
who act on them. Nobody reads a role out of a text: `ir.text` writes the fields, and a plan has the
fields of its checks beside their names.
"""

from dataclasses import dataclass, fields
from typing import Self, get_type_hints

from meganeura_dsl.ir.types import DType


@dataclass(frozen=True, eq=False, repr=False)
class OutputRole(str):  # noqa: SLOT000 - its fields are those of the dataclasses below
    """The name of an output that has a role. Equal to every name of the same letters."""

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """Returns its class and fields, of which a copy is made."""
        return type(self), tuple(getattr(self, each) for each in self.field_types())

    @classmethod
    def field_types(cls) -> dict[str, object]:
        """Returns the types of its fields, in order."""
        hints = get_type_hints(cls)
        return {each.name: hints[each.name] for each in fields(cls)}


@dataclass(frozen=True, eq=False, repr=False)
class IndexCheck(OutputRole):
    """The largest of the values of an index, as u32[]; a step whose is not below `below` is wrong.

    Negative numbers are larger than any size there. `location` is the line that indexes.
    """

    number: int
    dtype: DType
    """The type of the index: i32 or u32."""
    below: int
    location: str

    def __new__(cls, number: int, dtype: DType, below: int, location: str) -> Self:
        """Make the name of the check."""
        return super().__new__(cls, f"index {number}, {dtype.value} below {below}: {location}")

    def outside(self, largest: int) -> int | None:
        """Returns the index that is none of 0 ... below - 1, from the largest; `None` if none."""
        if largest < self.below:
            return None
        negative = self.dtype is DType.I32 and largest >= 1 << 31
        return largest - (1 << 32) if negative else largest


@dataclass(frozen=True, eq=False, repr=False)
class Objective(OutputRole):
    """The loss of one objective, by its number from 0, and the parameters that it moves."""

    number: int
    moves: tuple[str, ...]

    def __new__(cls, number: int, moves: tuple[str, ...]) -> Self:
        """Make the name of the objective."""
        return super().__new__(cls, f"objective {number} moves {' '.join(moves)}")


@dataclass(frozen=True, eq=False, repr=False)
class LossPart(OutputRole):
    """A sum over the examples whose gradients are added up over batches, by its number."""

    number: int

    def __new__(cls, number: int) -> Self:
        """Make the name of the part."""
        return super().__new__(cls, f"loss part {number}")


@dataclass(frozen=True, eq=False, repr=False)
class MetricPart(OutputRole):
    """A value from which metrics over several batches are computed, by its number."""

    number: int

    def __new__(cls, number: int) -> Self:
        """Make the name of the part."""
        return super().__new__(cls, f"part {number}")


@dataclass(frozen=True, eq=False, repr=False)
class Shown(OutputRole):
    """Pictures or a matrix that a program shows of held-out examples, by the name it has there."""

    name: str

    def __new__(cls, name: str) -> Self:
        """Make the name of the output."""
        return super().__new__(cls, f"show {name}")


@dataclass(frozen=True, eq=False, repr=False)
class Judged(OutputRole):
    """The `logits` f32[n, classes] or the `labels` i32[n] by which mistakes are found."""

    name: str

    def __new__(cls, name: str) -> Self:
        """Make the name of the output."""
        return super().__new__(cls, f"judged {name}")


@dataclass(frozen=True, eq=False, repr=False)
class Statistic(OutputRole):
    """A number of a value that a program shows in training, such as its mean, by its name."""

    value: str
    kind: str
    """`mean`, `deviation`, `from`, `to` or `not finite`, a share."""

    def __new__(cls, value: str, kind: str) -> Self:
        """Make the name of the output."""
        return super().__new__(cls, f"value {value}: {kind}")


@dataclass(frozen=True, eq=False, repr=False)
class Gradient(OutputRole):
    """The gradient of the loss with respect to a parameter, by the parameter's path."""

    parameter: str

    def __new__(cls, parameter: str) -> Self:
        """Make the name of the output."""
        return super().__new__(cls, f"gradient.{parameter}")


ROLES: dict[str, type[OutputRole]] = {
    each.__name__: each
    for each in (IndexCheck, Objective, LossPart, MetricPart, Shown, Judged, Statistic, Gradient)
}
"""All roles, by the names that texts of graphs have for them."""
