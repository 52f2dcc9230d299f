"""Tensors repeated, joined and padded."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.text import ATOM, Code, call, method


def repeated(arguments: Arguments) -> Code:
    """Writes `repeat`."""
    axis = str(arguments.number(1, "axis")) if _is_fixed(arguments, 1) else None
    dim = axis or str(arguments.static(1, "axis"))
    return method(arguments.tensor(0), "repeat_interleave", arguments.static(2, "times"), dim=dim)


def _is_fixed(arguments: Arguments, place: int) -> bool:
    node = arguments.node_at(place, "axis")
    return node is not None and len(set(map(repr, arguments.writer.seen.values(node)))) == 1


def joined(arguments: Arguments) -> Code:
    """Writes `concat`."""
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
    return call("torch.cat", whole, dim=writer.static(axis, "forward"))


def padded(arguments: Arguments) -> Code:
    """Writes `pad` with zeros."""
    axis = arguments.number(1, "axis") % arguments.rank()
    sizes = ["0", "0"] * (arguments.rank() - 1 - axis)
    sizes += [str(arguments.static(2, "before", "0")), str(arguments.static(3, "after", "0"))]
    value = arguments.tensor(0)
    return call("F.pad", value, f"({', '.join(sizes)})")
