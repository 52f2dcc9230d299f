"""Intervals of hyperparameters, and the lines that describe a choice's hyperparameters."""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from pydantic import Field

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Choice:
    """A choice in a setting by a word, such as `adam(lr=1e-3)`; its fields are the arguments."""

    word: ClassVar[str]

    def __str__(self) -> str:
        """Returns its text in a program, without arguments that have their defaults."""
        said = (f"{name}={value}" for name, value in self.changed.items())
        return f"{self.word}({', '.join(said)})"

    @property
    def changed(self) -> dict[str, object]:
        """The arguments that do not have their defaults, by name."""
        given = ((each, getattr(self, each.name)) for each in fields(self) if each.init)
        return {each.name: value for each, value in given if value != each.default}
