"""The configuration that a call gives a block, as arguments of Python."""

from collections.abc import Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.call_arguments import argument, is_direct
from meganeura_runtime.export.source.literals import is_plain, literal, plain, plain_default
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.paths import path_key
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.trace import Event
from meganeura_runtime.export.source.unit import Unit
from meganeura_runtime.export.source.whole_numbers import number


def configuration(
    writer: BlockWriter, node: ast.Call, unit: Unit, events: Sequence[Event], where: str
) -> list[str]:
    """The configuration of a class or a function, behind its sizes."""
    found: list[str] = []
    is_named = False
    for each in unit.configuration:
        value = config(writer, node, events, each, where)
        if value is None:
            is_named = True
        else:
            name = writer.local(each)
            is_named = is_named or each in unit.keywords
            found.append(f"{name}={value}" if is_named else str(value))
    return found


def config(
    writer: BlockWriter, node: ast.Call, events: Sequence[Event], name: str, where: str
) -> Code | None:
    """Returns the text of an argument of a call; None where it has its plain default."""
    block = events[0].child.block
    parameter = next(each for each in block.parameters if each.name == name)
    declared = None if where == "init" else _declaration(writer, node)
    if declared is None and is_direct(writer, node, block):
        written = argument(writer, node, block, name)
        if written is not None:
            return writer.static(written, where)
        if plain_default(parameter) is not None:
            return None
    values = [each.child.signature[name] for each in events]
    default = plain_default(parameter)
    if default is not None and all(plain(each) == default[0] for each in values):
        return None
    written = None if declared is None else argument(writer, declared, block, name)
    if written is not None and all(
        number(written, each.names) == value for each, value in zip(events, values, strict=True)
    ):
        return writer.static(written, where)
    first = values[0]
    if all(is_plain(each) and plain(each) == plain(first) for each in values):
        return literal(plain(first))
    if where == "init":
        return writer.size(node, events, name)
    raise refuse(node, f"`{name}` is another number each time")


def _declaration(writer: BlockWriter, node: ast.Call) -> ast.Call | None:
    """The call of the statement that declared the layer that is applied."""
    if node.label is not None:
        return None
    name = node.callee if node.path is None else ".".join(path_key(node.path))
    found = writer.declared.get(name)
    return found.call if isinstance(found, ast.Layer) else found
