"""Tensors that are joined."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.text import ATOM, Code


def joined(arguments: Arguments) -> tuple[str, Code]:
    """Reads `concat`: the text of its tensors in a list, and the axis."""
    writer = arguments.writer
    items: list[str] = []
    lists: list[Code] = []
    for each in arguments.places:
        assert not isinstance(each, ast.Rearrangement)
        code = writer.expression(each)
        if writer.seen.tensors(each):
            items.append(str(code))
        else:
            lists.append(code)
            items.append(f"*{code.within(ATOM)}")
    axis = arguments.named.get("axis")
    assert axis is not None
    assert not isinstance(axis, ast.Rearrangement)
    whole = str(lists[0]) if len(items) == len(lists) == 1 else f"[{', '.join(items)}]"
    return whole, writer.static(axis, "forward")
