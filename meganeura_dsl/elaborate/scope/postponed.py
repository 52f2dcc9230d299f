"""Numbers that depend on what symbols stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.scope.scope import Frame
    from meganeura_dsl.elaborate.values import Evaluated
    from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Postponed:
    """An expression in the names that it reads, and the parameter that begins so, if one does."""

    node: ast.Expression
    frame: Frame
    evaluate: Callable[[ast.Expression, Frame], Evaluated]
    parameter: str = ""
