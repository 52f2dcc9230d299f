"""Errors of a proof that cannot cover a block, after which the walk is done in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meganeura_dsl.symbolic.assumptions import show_condition

if TYPE_CHECKING:
    from meganeura_dsl.symbolic.assumptions import Condition
    from meganeura_dsl.syntax import ast


class UndecidableError(Exception):
    """A block depends on its configuration in a way no proof covers; `reason` says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ByIterationError(UndecidableError):
    """A condition changes from iteration to iteration of a loop that one proof covers."""

    def __init__(self, node: ast.Expression, condition: Condition) -> None:
        super().__init__(f"whether {show_condition(condition)} changes from iteration to iteration")
        self.node = node
        self.condition = condition


class OpenNumberError(UndecidableError):
    """A condition is about a number that the configuration gives, of which no proof knows more."""


class NeedsInliningError(Exception):
    """A modular proof needs the body of a block whose signature it assumed, at a path if known."""

    def __init__(self, path: str | None) -> None:
        super().__init__(path)
        self.path = path
