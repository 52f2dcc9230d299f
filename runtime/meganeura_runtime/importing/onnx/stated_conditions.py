"""Conditions on sizes that a program stated, as conditions of the language."""

import ast
import re
from collections.abc import Mapping, Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.symbolic.conditions import Compare, Operator, holds
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.import_problems import UnmetSizes, UnsupportedNodeError
from meganeura_runtime.importing.onnx.onnx_file import OnnxFile

OPERATORS: Mapping[type[ast.cmpop], Operator] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def state_conditions(
    file: OnnxFile,
    build: Builder,
    conditions: Sequence[str],
    open_sizes: Mapping[str, str],
    numbers: Mapping[str, int],
) -> None:
    """State conditions in a program, where sizes are open, with names in it, or numbers.

    Raises `ProblemError` for one that the language cannot say, and for one that does not hold.
    """
    named = {key: dim(name) for key, name in open_sizes.items()}
    for text in conditions:
        try:
            condition = condition_of(text, {**named, **numbers})
        except UnsupportedNodeError as error:
            names = tuple(each for each in named if re.search(rf"\b{each}\b", text))
            raise ProblemError(UnmetSizes(file.shown, text, str(error), names)) from None
        if condition is not None:
            build.state(condition)


def condition_of(text: str, sizes: Mapping[str, Size]) -> Compare | None:
    """Returns the condition that a comparison in Python says; None if it holds for these sizes.

    `sizes` are those of the names in it. Raises `UnsupportedNodeError` for a text that is no
    comparison of sums, products and quotients of them, and for one that does not hold.
    """
    match ast.parse(text, mode="eval").body:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
            type(operator) in OPERATORS
        ):
            found = Compare(OPERATORS[type(operator)], _size(left, sizes), _size(right, sizes))
        case _:
            raise UnsupportedNodeError("it is no comparison of two sizes")
    if not isinstance(found.left, int) or not isinstance(found.right, int):
        return found
    if not holds(found, {}):
        raise UnsupportedNodeError("it does not hold for the sizes that are given")
    return None


def _size(node: ast.expr, sizes: Mapping[str, Size]) -> Size:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return -_size(part, sizes)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _size(left, sizes), _size(right, sizes)
            match operator:
                case ast.Add():
                    return first + second
                case ast.Sub():
                    return first - second
                case ast.Mult():
                    return first * second
                case ast.FloorDiv() if second != 0:
                    return first // second
                case ast.Mod() if second != 0:
                    return first % second
                case ast.Pow() if isinstance(second, int) and second >= 0:
                    return first**second
                case _:
                    pass
        case _:
            pass
    raise UnsupportedNodeError(f"`{ast.unparse(node)}` is no size of the language")
