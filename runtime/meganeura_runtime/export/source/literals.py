"""Numbers, truth values and texts, as Python writes them."""

import math
from collections.abc import Sequence
from typing import cast

from meganeura_dsl.elaborate.values import ElabValue, is_initializer
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.text import ATOM, SIGN, Code


def plain_default(parameter: ast.Parameter) -> tuple[object] | None:
    """The default of an argument that is a number, a truth value or a text."""
    match parameter.default:
        case ast.Integer(value=value) | ast.Real(value=value) | ast.Boolean(value=value):
            return (value,)
        case ast.Text(value=value):
            return (value,)
        case ast.Unary(operator="-", operand=ast.Integer(value=value) | ast.Real(value=value)):
            return (-value,)
        case _:
            return None


def literal(value: object) -> Code:
    """A number, a truth value, a text or a list of them, as Python writes it."""
    match value:
        case bool():
            return Code(str(value))
        case str():
            return Code('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"')
        case int() | float():
            text = repr(value).replace("e+", "e")
            if not math.isfinite(value):
                text = f'float("{value}")'
            return Code(text, SIGN if value < 0 else ATOM)
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return Code(f"[{', '.join(str(literal(each)) for each in items)}]")
        case _:
            raise TypeError(f"no literal: {value!r}")


def is_plain(value: ElabValue) -> bool:
    """Returns True for what `literal` writes, and for a first value, which becomes `True`."""
    if is_initializer(value):
        return True
    if isinstance(value, list):
        return all(is_plain(each) for each in value)
    return isinstance(value, bool | int | float | str)


def plain(value: object) -> object:
    """Returns numbers, texts and lists unchanged, and True for anything else."""
    if isinstance(value, list):
        return cast("list[object]", value)
    return value if isinstance(value, bool | int | float | str) else True
