"""The statements that a wrong one reads its values from."""

from collections.abc import Iterator

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

MOST_READ = 6
"""Statements that are looked at, the wrong one included."""


def read_statements(declaration: ast.Block | ast.Train, span: Span) -> tuple[ast.Node, ...]:
    """The innermost statement around a place, then those whose values it reads, the nearest first.

    Empty if no statement is around it.
    """
    simple = [each for each in _statements(declaration.body) if not _body_of(each)]
    waiting = [each for each in simple if each.span.contains(span)]
    found: list[ast.Node] = []
    while waiting and len(found) < MOST_READ:
        statement = waiting.pop(0)
        if statement in found:
            continue
        found.append(statement)
        read = {each.text for each in walk(statement) if isinstance(each, ast.Name)}
        before = [
            each for each in simple
            if each.span.start < statement.span.start and read & _bound(each)
        ]  # fmt: skip
        waiting += reversed(before)
    return tuple(found)


def _statements(body: tuple[ast.Statement, ...]) -> Iterator[ast.Statement]:
    for statement in body:
        yield statement
        yield from _statements(_body_of(statement))


def _body_of(statement: ast.Statement) -> tuple[ast.Statement, ...]:
    match statement:
        case ast.If(then=then, otherwise=otherwise):
            return (*then, *otherwise)
        case ast.For(body=body) | ast.Scan(body=body):
            return body
        case _:
            return ()


def _bound(statement: ast.Node) -> set[str]:
    match statement:
        case ast.Bind(targets=targets):
            return {each.text for each in targets}
        case ast.Declare(path=path):
            return {path.span.text}
        case ast.Part(target=target):
            return {target.text}
        case _:
            return set()
