"""Values that are known without data, as Python: sizes, numbers, truth values, texts, lists."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.values import BlockValue, is_initializer, is_tensor
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.literals import is_plain, literal
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import (
    ANY,
    ATOM,
    NOT,
    OR,
    SIGN,
    Code,
    binary,
    call,
    slice_text,
)

_MATH = {"log": "math.log", "exp": "math.exp", "sqrt": "math.sqrt", "sin": "math.sin",
         "cos": "math.cos", "tanh": "math.tanh", "abs": "abs", "floor": "math.floor"}  # fmt: skip
"""Functions of numbers."""


def static_code(writer: BlockWriter, node: ast.Expression, where: str) -> Code:
    """The text of a size, a number, a truth value, a text or a list of them."""
    values = writer.seen.values(node)
    try:
        return written_static(writer, node, where)
    except ProblemError:
        if values and all(is_plain(each) and each == values[0] for each in values):
            return literal(values[0])
        raise


def written_static(writer: BlockWriter, node: ast.Expression, where: str) -> Code:
    """The text of what is known before any data is, where each part of it has one."""
    match node:
        case ast.Integer(value=value) | ast.Real(value=value):
            return literal(value)
        case ast.Boolean(value=value):
            return Code(str(value))
        case ast.Text(value=value):
            return literal(value)
        case ast.Name():
            return _name(writer, node, where)
        case ast.ListOf(items=items):
            return Code(f"[{', '.join(str(writer.static(each, where)) for each in items)}]")
        case ast.Unary(operator="not", operand=operand):
            return Code(f"not {writer.static(operand, where).within(NOT)}", NOT)
        case ast.Unary(operand=operand):
            return Code(f"-{writer.static(operand, where).within(SIGN)}", SIGN)
        case ast.Binary(operator=operator, left=left, right=right):
            return binary(operator, writer.static(left, where), writer.static(right, where))
        case ast.Conditional():
            return _conditional(writer, node, where)
        case ast.Subscript(base=base, entries=(entry,)):
            return _item(writer, base, entry, where)
        case ast.Call():
            return _static_call(writer, node, where)
        case _:
            raise refuse(node, "no number is written so")


def _conditional(writer: BlockWriter, node: ast.Conditional, where: str) -> Code:
    chosen = writer.seen.choice(node)
    if chosen is not None:
        return writer.static(node.then if chosen else node.otherwise, where)
    then, condition, otherwise = (
        writer.static(each, where) for each in (node.then, node.condition, node.otherwise)
    )
    text = f"{then.within(OR)} if {condition.within(OR)} else {otherwise.within(ANY)}"
    return Code(text, ANY)


def _item(writer: BlockWriter, base: ast.Expression, entry: ast.Entry, where: str) -> Code:
    text = writer.static(base, where).within(ATOM)
    match entry:
        case ast.Range(start=start, stop=stop):
            ends = [
                "" if each is None else str(writer.static(each, where)) for each in (start, stop)
            ]
            return Code(f"{text}[{slice_text(ends)}]")
        case ast.EllipsisEntry():
            raise refuse(entry, "a list has no axes")
        case _:
            return Code(f"{text}[{writer.static(entry, where)}]")


def _static_call(writer: BlockWriter, node: ast.Call, where: str) -> Code:
    found = writer.instances[0].frame.module.find(node.callee)
    arguments = [
        each.value for each in node.arguments if not isinstance(each.value, ast.Rearrangement)
    ]
    if found is not None and isinstance(found[1], ast.Def):
        function = writer.source.function(found[0], found[1])
        named = [
            f"{each.name}={writer.static(each.value, where)}"
            if each.name
            else str(writer.static(each.value, where))
            for each in node.arguments
            if not isinstance(each.value, ast.Rearrangement)
        ]
        return Code(f"{function}({', '.join(named)})")
    if where == "init" and node.callee in ("size", "rank", "shape"):
        raise refuse(node, "the constructor does not know a shape")
    match node.callee:
        case "size":
            axis = next(
                each.value for at, each in enumerate(node.arguments) if at == 1 or each.name
            )
            assert not isinstance(axis, ast.Rearrangement)
            return Code(
                f"{writer.tensor(arguments[0]).within(ATOM)}.shape[{writer.static(axis, where)}]"
            )
        case "rank":
            return Code(f"{writer.tensor(arguments[0]).within(ATOM)}.ndim")
        case "shape":
            return Code(f"{writer.tensor(arguments[0]).within(ATOM)}.shape")
        case "is_integer":
            return Code(str(writer.seen.type_of(arguments[0]).dtype.is_integer))
        case "product":
            return call("math.prod", writer.static(arguments[0], where))
        case "len" | "int" | "sum" | "min" | "max":
            return call(node.callee, *(writer.static(each, where) for each in arguments))
        case name if name in _MATH:
            return call(_MATH[name], *(writer.static(each, where) for each in arguments))
        case _:
            raise refuse(node, "no number is written so")


def _name(writer: BlockWriter, node: ast.Name, where: str) -> Code:
    """A name that is known before any data is."""
    if node.text == "training" and node.text not in writer.env:
        if writer.is_class and where == "init":
            raise refuse(node, "the constructor does not know the mode")
        writer.unit.training = True
        return Code("self.training" if writer.is_class else "training")
    kind = writer.env.get(node.text)
    values = writer.seen.values(node)
    if any(isinstance(each, BlockValue) for each in values):
        raise refuse(node, "a block is no value of Python")
    if any(is_initializer(each) for each in values) and kind != "own":
        return Code("True")
    match kind:
        case "config" if node.text in writer.unit.late:
            if where == "init" and writer.is_class:
                raise refuse(node, "the constructor does not know a size of the data")
            return Code(writer.local(node.text))
        case "config":
            if where == "forward":
                return Code(writer.configured(node.text))
            return Code(writer.local(node.text))
        case "size" if where == "init" and not writer.is_number(node.text):
            raise refuse(node, "the constructor does not know a size of the data")
        case "size" | "static" | "local":
            return Code(writer.local(node.text))
        case "rest":
            return sizes_of_rest(writer, node)
        case _:
            raise refuse(node, "it is not known what it is")


def rank_of_rest(writer: BlockWriter, rest: ast.Rest) -> int:
    """The number of axes of a rest, from the rank of an input that has it."""
    for item in writer.unit.inputs:
        entries = item.type.shape.entries
        value = writer.instances[0].signature[item.name]
        if is_tensor(value) and any(
            isinstance(each, ast.Rest) and each.name == rest.name for each in entries
        ):
            return value.type.rank - (len(entries) - 1)
    raise refuse(rest, "no input that is given has these axes")


def sizes_of_rest(writer: BlockWriter, node: ast.Name) -> Code:
    """The sizes of a rest, from the shape of an input that has it."""
    for item in writer.unit.inputs:
        entries = item.type.shape.entries
        for at, entry in enumerate(entries):
            if isinstance(entry, ast.Rest) and entry.name == node.text:
                behind = len(entries) - at - 1
                start, stop = str(at or ""), str(-behind or "")
                shape = f"{writer.local(item.name)}.shape"
                return Code(f"{shape}[{start}:{stop}]" if start or stop else shape)
    raise refuse(node, "no input that is given has these axes")


def range_of(writer: BlockWriter, statement: ast.For | ast.Scan, where: str) -> Code:
    """The text of the numbers that a loop or a scan goes through."""
    start, stop = writer.static(statement.start, where), writer.static(statement.stop, where)
    return call("range", stop) if start.text == "0" else call("range", start, stop)
