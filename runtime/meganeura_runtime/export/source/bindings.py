"""The values that names are bound to, statement by statement."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Bound:
    """The value that a name was bound to, its place among several, and the bindings before it."""

    value: ast.Expression
    result: int
    before: "Mapping[str, Bound]"


def bound_in(statement: ast.Statement) -> set[str]:
    """The names that statements below bind."""
    return {
        target.text
        for node in walk(statement)
        if isinstance(node, ast.Bind)
        for target in node.targets
    }


def without_rebound(bound: Mapping[str, Bound], statement: ast.Statement) -> Mapping[str, Bound]:
    """Returns the bindings without those of names that a loop or a choice binds."""
    names = bound_in(statement)
    return {name: each for name, each in bound.items() if name not in names}
