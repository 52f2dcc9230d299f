"""The number that an expression is, by the numbers that its names are."""

from collections.abc import Sequence
from typing import cast

from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.trace import Names


def gives(node: ast.Expression, names: Names, value: ElabValue) -> bool:
    """Returns True for an expression that is this whole number where names have these values."""
    found = number(node, names)
    return isinstance(found, int) and found == value


def number(node: ast.Expression, names: Names) -> object:
    """The number that an expression is where names have these values, if it is one."""
    match node:
        case ast.Integer(value=value):
            return value
        case ast.Name(text=text):
            return names.get(text)
        case ast.Unary(operator="-", operand=operand):
            found = number(operand, names)
            return -found if isinstance(found, int) else None
        case ast.Binary(operator=operator, left=left, right=right):
            a, b = number(left, names), number(right, names)
            if not isinstance(a, int | float) or not isinstance(b, int | float):
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
        case ast.Call(callee="min" | "max" | "int", arguments=arguments, label=None):
            return _of_function(node.callee, arguments, names)
        case ast.Real(value=value):
            return value
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


def _of_function(callee: str, arguments: Sequence[ast.Argument], names: Names) -> object:
    found: list[int | float] = []
    for each in arguments:
        value = None if isinstance(each.value, ast.Rearrangement) else number(each.value, names)
        if not isinstance(value, int | float):
            return None
        found.append(value)
    match callee:
        case "int":
            return int(found[0])
        case "min":
            return min(found)
        case _:
            return max(found)
