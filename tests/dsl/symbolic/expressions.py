"""Size expressions as trees, which can be read as a size, as a number and by an oracle."""

import ast
from collections.abc import Callable
from operator import add, floordiv, mod, mul, sub
from typing import Any

from hypothesis import strategies as st

from meganeura_dsl.symbolic.size import Size, dim

Tree = Any
"""A number, a name, or (operator, tree, tree); divisors are names and numbers above 1."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "//": floordiv,
    "%": mod,
}


def read(
    tree: Tree,
    name: Callable[[str], Any],
    number: Callable[[int], Any] = int,
    divide: Callable[[Any, Any], Any] = floordiv,
) -> Any:  # noqa: ANN401 - what the names are, the whole is
    """The tree with a value for each name and number."""
    match tree:
        case (operator, left, right):
            meaning = divide if operator == "//" else OPERATORS[operator]
            return meaning(read(left, name, number, divide), read(right, name, number, divide))
        case str():
            return name(tree)
        case _:
            return number(tree)


def size_of(tree: Tree) -> Size:
    """The tree as a size."""
    return read(tree, dim)


def trees(names: str = "hws", depth: int = 3) -> st.SearchStrategy[Tree]:
    """Trees of at most this depth over one-letter names."""
    leaf = st.sampled_from([*names, *names]) | st.integers(1, 6)
    if depth == 0:
        return leaf
    part = trees(names, depth - 1)
    divisor = st.sampled_from([2, 3, 4, 5, *names])
    return (
        leaf
        | st.tuples(st.sampled_from("+-*"), part, part)
        | st.tuples(st.sampled_from(["//", "%"]), part, divisor)
    )


def parse(text: str) -> Size:
    """A size as `show` writes it, read back."""
    return _read_syntax(ast.parse(text, mode="eval").body)


def _read_syntax(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return dim(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return 0 - _read_syntax(operand)
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=int(exponent))):
            return _read_syntax(base) ** exponent
        case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(above, ast.Div(), below)]):
            divisor = _read_syntax(below)
            return (_read_syntax(above) + divisor - 1) // divisor
        case ast.BinOp(left=left, op=operator, right=right):
            symbols = {
                ast.Add: "+",
                ast.Sub: "-",
                ast.Mult: "*",
                ast.FloorDiv: "//",
                ast.Mod: "%",
            }
            return OPERATORS[symbols[type(operator)]](_read_syntax(left), _read_syntax(right))
        case _:
            raise ValueError(ast.dump(node))
