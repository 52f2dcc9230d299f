"""Draws a syntax tree: one line for each node, its fields below it and further right."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

HIDDEN = ("span", "source", "callee_span", "operator_span")
"""Fields that say where something is, not what it is."""
EMPTY = (None, (), frozenset[object]())
"""Values that say nothing."""


def draw(node: object) -> str:
    """A tree of dataclasses as text."""
    return "\n".join(_lines(node, ""))


def _lines(node: object, indent: str) -> Iterator[str]:
    if not is_dataclass(node):
        yield f"{indent}{node!r}"
        return
    plain: list[str] = []
    deeper: list[tuple[str, object]] = []
    for field in fields(node):
        value = cast("object", getattr(node, field.name))
        if field.name not in HIDDEN and value not in EMPTY:
            if is_dataclass(value) or isinstance(value, tuple):
                deeper.append((field.name, cast("object", value)))
            else:
                plain.append(f"{field.name}={value!r}")
    yield f"{indent}{' '.join([type(node).__name__, *plain])}"
    for name, value in deeper:
        yield f"{indent}  {name}:"
        for each in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
            yield from _lines(each, f"{indent}    ")
