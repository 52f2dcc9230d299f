"""The nodes of a syntax tree, whatever their kinds."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import cast

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast


def walk(node: ast.Node) -> Iterator[ast.Node]:
    """A node and all below it, in no promised order."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        for name in _parts_of(type(item)):
            value = getattr(item, name)
            if isinstance(value, ast.Node):
                stack.append(value)
            elif isinstance(value, tuple):
                parts = cast("tuple[object, ...]", value)
                stack += [part for part in parts if isinstance(part, ast.Node)]


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes that a node is made of, in the order of its fields."""
    for name in _parts_of(type(node)):
        value = getattr(node, name)
        parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        yield from (part for part in parts if isinstance(part, ast.Node))


@cache
def _parts_of(form: type[ast.Node]) -> tuple[str, ...]:
    """The fields of a form that may hold nodes."""
    plain = (Span, str, int, float, bool)
    return tuple(each.name for each in fields(form) if each.type not in plain)
