"""Intervals of hyperparameters, and the lines that describe a choice's hyperparameters."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Choice:
    """What a setting names by a word, such as `adam(lr=1e-3)`; its fields are the arguments."""

    word: ClassVar[str]
