"""Positions, and what is read from or added at them."""

from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import ATOM, Code, call, method, tuple_text


def scatter_add(arguments: Arguments) -> Code:
    """Writes `scatter_add`."""
    axis = arguments.number(3, "axis", 0)
    batch = arguments.number(4, "batch", 0)
    writer = arguments.writer
    if axis != 0 or batch != 0:
        raise refuse(arguments.node, "a scatter along another axis than the first")
    ids, updates = arguments.tensor(0), arguments.tensor(1)
    size, rank = arguments.static(2, "size"), arguments.rank(0)
    updates = writer.simple(updates, "updates")
    if rank != 1:
        ids = method(ids, "flatten")
        updates = method(updates, "flatten", "0", str(rank - 1))
    if arguments.rank(1) == rank:
        empty = method(updates, "new_zeros", size)
    else:
        shape = f"{updates.within(ATOM)}.shape[1:]"
        empty = method(updates, "new_zeros", f"({size}, *{shape})")
    return method(empty, "index_add", "0", ids, updates)


def scatter_extreme(arguments: Arguments) -> Code:
    """Writes `scatter_max` and `scatter_min`."""
    if arguments.number(4, "axis", 0) or arguments.number(5, "batch", 0):
        raise refuse(arguments.node, "a scatter along another axis than the first")
    ids, updates = arguments.tensor(0), arguments.writer.simple(arguments.tensor(1), "updates")
    rank = arguments.rank(0)
    size, empty = arguments.static(2, "size"), arguments.static(3, "empty")
    shape = [str(size)]
    if arguments.rank(1) > rank:
        shape.append(f"*{updates.within(ATOM)}.shape[{rank}:]")
    if rank != 1:
        ids = method(ids, "flatten")
        updates = method(updates, "flatten", "0", str(rank - 1))
    none = method(updates, "new_full", tuple_text(shape), empty)
    for _ in range(rank, arguments.rank(1)):
        ids = method(ids, "unsqueeze", "-1")
    if arguments.rank(1) > rank:
        ids = method(ids, "expand_as", updates)
    word = "amax" if arguments.node.callee == "scatter_max" else "amin"
    return method(none, "scatter_reduce", "0", ids, updates, f'"{word}"', include_self="False")


def one_hot(arguments: Arguments) -> Code:
    """Writes `one_hot`."""
    ids, classes = arguments.tensor(0), arguments.static(1, "classes")
    numbers = call("torch.arange", classes, **arguments.writer.placement())
    same = Code(f"({method(ids, 'unsqueeze', '-1')} == {numbers})")
    found = arguments.writer.convert(same, DType.BOOL, "f32")
    assert found is not None
    return found


def reversed_along(arguments: Arguments) -> Code:
    """Writes `reverse`."""
    return method(arguments.tensor(0), "flip", str(arguments.number(1, "axis")))
