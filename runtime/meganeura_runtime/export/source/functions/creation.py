"""New tensors."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.text import Code


def shape_items(arguments: Arguments) -> list[str] | None:
    """The sizes of a shape that is written as a list, as texts; None of another one."""
    node = arguments.node_at(0, "shape")
    writer = arguments.writer
    if not isinstance(node, ast.ListOf):
        return None
    return [
        f"*{writer.static(each, 'forward')}"
        if isinstance(each, ast.Name) and writer.env.get(each.text) == "rest"
        else str(writer.static(each, "forward"))
        for each in node.items
    ]


def iota(arguments: Arguments) -> Code:
    """Writes the numbers from 0."""
    return arguments.writer.numbers(arguments.static(0, "size"))
