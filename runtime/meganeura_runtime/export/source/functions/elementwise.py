"""Functions of elements."""

import re
from collections.abc import Sequence

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import FLOAT, Arguments
from meganeura_runtime.export.source.functions.axes import only_repeats, repeated_axes, spread
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code, binary, call, method

UNARY = {
    "abs": "torch.abs", "exp": "torch.exp", "expm1": "torch.expm1", "log": "torch.log",
    "log1p": "torch.log1p", "logistic": "torch.sigmoid", "sqrt": "torch.sqrt", "sin": "torch.sin",
    "cos": "torch.cos", "tanh": "torch.tanh", "erf": "torch.erf", "floor": "torch.floor",
    "round": "torch.round", "sign": "torch.sign",
}  # fmt: skip


_AS_FLOAT = f".to({FLOAT})"


def pair(writer: BlockWriter, node: ast.Binary) -> Code:
    """An operator between tensors, or a tensor and a number."""
    left, right = node.left, node.right
    operator = {"and": "&", "or": "|"}.get(node.operator, node.operator)
    if operator == "@":
        return binary("@", writer.expression(left), writer.expression(right))
    fills = [writer.fill(each) if writer.seen.is_data(each) else None for each in (left, right)]
    if operator in ("+", "-") and str(fills[1]) in ("0", "0.0"):
        return writer.expression(left)
    if operator == "+" and str(fills[0]) in ("0", "0.0"):
        return writer.expression(right)
    return binary(operator, *together(writer, (left, right), node))


def together(
    writer: BlockWriter, nodes: Sequence[ast.Expression], around: ast.Expression
) -> list[Code]:
    """Tensors of one elementwise function; PyTorch repeats the smaller ones.

    What only repeats a tensor is left out where each axis of the result is an axis of one of them.
    """
    rank = writer.seen.type_of(around).rank
    data = [each for each in nodes if writer.seen.is_data(each)]
    full = [each for each in data if writer.seen.type_of(each).rank == rank]
    repeats = [repeated_axes(writer, each) for each in full]
    is_whole = not full or any(all(axis in each for each in repeats) for axis in range(rank))
    return [
        spread(writer, each, is_whole=is_whole)
        if each in data and only_repeats(each)
        else writer.expression(each)
        for each in nodes
    ]


def of_elements(arguments: Arguments) -> Code:
    """Writes a function of single elements."""
    return call(UNARY[arguments.node.callee], arguments.tensor(0))


def chosen(arguments: Arguments) -> Code:
    """Writes `where`."""
    writer = arguments.writer
    nodes = [arguments.node_at(at) for at in range(3)]
    condition, then, otherwise = nodes
    assert condition is not None
    assert then is not None
    assert otherwise is not None
    fill = writer.fill(condition) if writer.seen.is_data(condition) else None
    if fill is not None:
        chosen = then if fill.text == "True" else otherwise
        return writer.tensor(chosen)
    if not writer.seen.is_data(condition):
        a, b = (writer.tensor(each) for each in (then, otherwise))
        test = writer.static(condition, "forward")
        return Code(f"({a} if {test} else {b})")
    around = _whole_of(arguments)
    codes = together(writer, (condition, then, otherwise), around)
    if not writer.seen.is_data(then) and not writer.seen.is_data(otherwise):
        codes[1:] = [Code(as_float(each), each.binds) for each in codes[1:]]
    return call("torch.where", *codes)


def as_float(code: Code) -> str:
    """Returns the text of a number as a float."""
    if re.fullmatch(r"-?\d+\.[\de-]+", code.text):
        return code.text
    return f"{code.text}.0" if code.text.lstrip("-").isdigit() else f"float({code.text})"


def _whole_of(arguments: Arguments) -> ast.Expression:
    """The node of the call itself, or of the pipe around it."""
    for each in arguments.writer.pipes(arguments.node):
        return each
    return arguments.node


def limited(arguments: Arguments) -> Code:
    """Writes `maximum` and `minimum`, of a number as `clamp`."""
    writer = arguments.writer
    left, right = arguments.node_at(0), arguments.node_at(1)
    assert left is not None
    assert right is not None
    name = arguments.node.callee
    for value, bound in ((left, right), (right, left)):
        if not writer.seen.is_data(bound) or writer.fill(bound) is not None:
            if not writer.seen.is_data(value):
                break
            limit = writer.expression(bound)
            return method(
                writer.expression(value), "clamp", **{"min" if name == "maximum" else "max": limit}
            )
    codes = together(writer, (left, right), _whole_of(arguments))
    return call(f"torch.{name}", *codes)


def converted(arguments: Arguments) -> Code:
    """Writes a conversion to another element type."""
    writer, name = arguments.writer, arguments.node.callee
    node = arguments.node_at(0)
    assert node is not None
    if not writer.seen.is_data(node):
        text = writer.static(node, "forward")
        if name in ("i32", "u32", "i64"):
            return call("torch.tensor", call("int", text))
        return call("torch.tensor", call("float", text))
    fill = writer.fill(node)
    if fill is not None:
        return writer.whole(node)
    before = arguments.dtype()
    value = writer.expression(node)
    if before.value == name:
        return value
    match name:
        case "f32" if before is DType.F16:
            return method(value, "float")
        case "f32":
            return method(value, "to", FLOAT)
        case "f16":
            return method(value, "half")
        case "bool":
            return method(value, "bool")
        case "i32" if value.text.endswith(_AS_FLOAT):  # of truth values: `one_hot`
            return method(Code(value.text.removesuffix(_AS_FLOAT)), "long")
        case "i32" if before.is_float or before is DType.BOOL:
            return method(value, "long")
        case _:
            raise refuse(arguments.node, f"`{before.value}` as `{name}`")


def detached(arguments: Arguments) -> Code:
    """Writes `stop_gradient`."""
    return method(arguments.tensor(0), "detach")


def unchanged(arguments: Arguments) -> Code:
    """Writes what is given, as `show` returns it."""
    return arguments.tensor(0)
