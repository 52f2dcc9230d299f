"""Functions of elements."""

import re
from collections.abc import Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.axes import only_repeats, repeated_axes, spread
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code, binary, call

UNARY = frozenset(
    (
        "abs", "exp", "expm1", "log", "log1p", "logistic", "sqrt", "sin", "cos", "tanh", "erf",
        "floor", "round", "sign",
    )
)  # fmt: skip
"""Functions of single elements."""


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
    """Tensors of one elementwise function; Python repeats the smaller ones.

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
    name = arguments.node.callee
    writer = arguments.writer
    found = writer.renamed.get(name, f"{writer.namespace}.{name}")
    return call(found, arguments.tensor(0))


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
    codes = together(writer, (condition, then, otherwise), arguments.whole)
    if not writer.seen.is_data(then) and not writer.seen.is_data(otherwise):
        codes[1:] = [Code(as_float(each), each.binds) for each in codes[1:]]
    return call(f"{writer.namespace}.where", *codes)


def as_float(code: Code) -> str:
    """Returns the text of a number as a float."""
    if re.fullmatch(r"-?\d+\.[\de-]+", code.text):
        return code.text
    return f"{code.text}.0" if code.text.lstrip("-").isdigit() else f"float({code.text})"


def limited(arguments: Arguments) -> Code:
    """Writes `maximum` and `minimum`."""
    writer = arguments.writer
    left, right = arguments.node_at(0), arguments.node_at(1)
    assert left is not None
    assert right is not None
    name = arguments.node.callee
    for value, bound in ((left, right), (right, left)):
        if not writer.seen.is_data(bound) or writer.fill(bound) is not None:
            if not writer.seen.is_data(value):
                break
            return writer.limit(name, writer.expression(value), writer.expression(bound))
    codes = together(writer, (left, right), arguments.whole)
    return call(f"{writer.namespace}.{name}", *codes)


def converted(arguments: Arguments) -> Code:
    """Writes a conversion to another element type."""
    writer, name = arguments.writer, arguments.node.callee
    node = arguments.node_at(0)
    assert node is not None
    if not writer.seen.is_data(node):
        text = writer.static(node, "forward")
        is_whole = name in ("i32", "u32", "i64")
        return writer.number(call("int" if is_whole else "float", text))
    fill = writer.fill(node)
    if fill is not None:
        return writer.whole(node)
    before = arguments.dtype()
    value = writer.expression(node)
    if before.value == name:
        return value
    found = writer.convert(value, before, name)
    if found is None:
        raise refuse(arguments.node, f"`{before.value}` as `{name}`")
    return found


def detached(arguments: Arguments) -> Code:
    """Writes `stop_gradient`."""
    return arguments.writer.detach(arguments.tensor(0))


def unchanged(arguments: Arguments) -> Code:
    """Writes what is given, as `show` returns it."""
    return arguments.tensor(0)
