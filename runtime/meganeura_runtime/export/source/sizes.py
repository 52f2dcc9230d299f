"""Sizes that a constructor needs: the widths of what a layer will be applied to."""

from collections.abc import Iterator, Sequence
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import written_static
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.trace import Event, Names


def size_text(
    writer: BlockWriter, node: ast.Node, wanted: Sequence[tuple[Event, ElabValue]]
) -> Code:
    """An expression that is a size in every application, for a constructor."""
    numbers = [(event.names, value) for event, value in wanted]
    for _, value in numbers:
        if not isinstance(value, int) or isinstance(value, bool):
            raise refuse(node, f"the constructor needs the size {value}, which data decides")
    for candidate in _candidates(writer):
        if all(number(candidate, names) == value for names, value in numbers):
            try:
                return written_static(writer, candidate, "init")
            except ProblemError:
                continue
    first = numbers[0][1]
    if all(value == first for _, value in numbers):
        return literal(first)
    raise refuse(node, "no size of this block is the width of what it is applied to")


def _candidates(writer: BlockWriter) -> Iterator[ast.Expression]:
    yield from reversed(writer.widths)
    span = writer.block.name.span
    shaped = {
        node.text
        for item in writer.block.inputs
        for node in walk(item.type)
        if isinstance(node, ast.Name)
    }
    known = [name for name, kind in writer.env.items() if kind in ("size", "config", "static")]
    names = sorted(known, key=lambda name: name not in shaped)
    yield from (ast.Name(span, name) for name in names if name in shaped)
    for statement in (*writer.block.body, *(writer.block.results or ())):
        for node in walk(statement):
            if isinstance(node, ast.Binary | ast.Conditional | ast.Subscript):
                yield node
    yield from (ast.Name(span, name) for name in names)


def number(node: ast.Expression, names: Names) -> object:
    """The whole number that an expression is where names have these values, if it is one."""
    match node:
        case ast.Integer(value=value):
            return value
        case ast.Name(text=text):
            return names.get(text)
        case ast.Binary(operator=operator, left=left, right=right):
            a, b = number(left, names), number(right, names)
            if not isinstance(a, int) or not isinstance(b, int):
                return None
            match operator:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "//" if b:
                    return a // b
                case "%" if b:
                    return a % b
                case "**" if b >= 0:
                    return a**b
                case "==":
                    return a == b
                case "!=":
                    return a != b
                case ">":
                    return a > b
                case "<":
                    return a < b
                case _:
                    return None
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            chosen = number(condition, names)
            if not isinstance(chosen, bool):
                return None
            return number(then if chosen else otherwise, names)
        case ast.Subscript(base=base, entries=(entry,)) if not isinstance(
            entry, ast.Range | ast.EllipsisEntry
        ):
            found, at = number(base, names), number(entry, names)
            items = cast("list[object]", found) if isinstance(found, list) else []
            if isinstance(at, int) and -len(items) <= at < len(items):
                return items[at]
            return None
        case _:
            return None
