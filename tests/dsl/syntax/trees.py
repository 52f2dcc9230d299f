"""Helpers of the tests of syntax: programs, their trees as plain values, and walks over them."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Report, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import parse

PROGRAMS = Path(__file__).with_name("programs")
NAMES = ("repvgg", "resnet", "whisper")

Plain = str | int | float | None | tuple["Plain", ...]


def program(name: str) -> str:
    """The text of one of the programs."""
    return (PROGRAMS / f"{name}.mgn").read_text(encoding="utf-8")


def read(text: str) -> tuple[ast.Module, tuple[Report, ...]]:
    """The tree of a text, and what is wrong with it."""
    sink = Sink()
    return parse(Source("test.mgn", text), sink), sink.reports


def tree(text: str) -> ast.Module:
    """The tree of a text without mistakes."""
    module, reports = read(text)
    assert not reports, [report.headline for report in reports]
    return module


def plain(value: object) -> Plain:
    """A tree without its places, as tuples that compare by value and show the kind of each node."""
    match value:
        case ast.Module():
            return plain(value.declarations)
        case ast.Node():
            parts = (getattr(value, field.name) for field in fields(value) if _is_part(field.name))
            return (type(value).__name__, *(plain(part) for part in parts))
        case tuple():
            return tuple(plain(part) for part in value)
        case bool() | float():
            return repr(value)
        case str() | int() | None:
            return value
        case _:
            raise TypeError(value)


def _is_part(field: str) -> bool:
    return field != "span" and not field.endswith("_span")


def nodes(value: object) -> Iterator[ast.Node]:
    """All nodes of a tree, a node before its parts."""
    match value:
        case ast.Module():
            yield from nodes(value.declarations)
        case ast.Node():
            yield value
            for field in fields(value):
                if _is_part(field.name):
                    yield from nodes(getattr(value, field.name))
        case tuple():
            for part in value:
                yield from nodes(part)
        case _:
            pass


def expression(text: str) -> ast.Expression:
    """The tree of an expression."""
    (definition,) = tree(f"def f() = {text}\n").declarations
    assert isinstance(definition, ast.Def)
    return definition.body


def statements(text: str) -> tuple[ast.Statement, ...]:
    """The trees of the statements of a block."""
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    (block,) = tree(f"block B()(x: [n]):\n{lines}").declarations
    assert isinstance(block, ast.Block)
    return block.body


def place(span: Span) -> tuple[int, int, str]:
    """Line, column and text of a span."""
    return span.line, span.column, span.text
