"""Tensors repeated, joined and padded."""

from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.movement import joined
from meganeura_runtime.export.source.text import Code, call, method


def repeated(arguments: Arguments) -> Code:
    """Writes `repeat`."""
    axis = str(arguments.number(1, "axis")) if _is_fixed(arguments, 1) else None
    dim = axis or str(arguments.static(1, "axis"))
    return method(arguments.tensor(0), "repeat_interleave", arguments.static(2, "times"), dim=dim)


def _is_fixed(arguments: Arguments, place: int) -> bool:
    node = arguments.node_at(place, "axis")
    return node is not None and len(set(map(repr, arguments.writer.seen.values(node)))) == 1


def concatenated(arguments: Arguments) -> Code:
    """Writes `concat`."""
    whole, axis = joined(arguments)
    return call("torch.cat", whole, dim=axis)


def padded(arguments: Arguments) -> Code:
    """Writes `pad` with zeros."""
    axis = arguments.number(1, "axis") % arguments.rank()
    sizes = ["0", "0"] * (arguments.rank() - 1 - axis)
    sizes += [str(arguments.static(2, "before", "0")), str(arguments.static(3, "after", "0"))]
    value = arguments.tensor(0)
    return call("F.pad", value, f"({', '.join(sizes)})")
