"""Numbers that depend on what symbols stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from meganeura_dsl.ir.initializers import Initializer
    from meganeura_dsl.syntax import ast


Scope = TypeVar("Scope")
"""The names in scope where the expression stands."""


@dataclass(frozen=True)
class DeferredNumber(Generic[Scope]):
    """An expression in the names that it reads, and the parameter that begins so, if one does."""

    node: ast.Expression
    frame: Scope
    parameter: str = ""
    known: dict[Hashable, tuple[Initializer | None, int]] = field(
        init=False,
        repr=False,
        compare=False,
        default_factory=dict["Hashable", "tuple[Initializer | None, int]"],
    )
    """Initial values and their steps, by the whole numbers of all names."""
