"""Positions, and what is read from or added at them."""

import re

from meganeura_runtime.export.source.functions.arguments import FLOAT, Arguments, device_of
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import ATOM, Code, call, method, tuple_text


def iota(arguments: Arguments) -> Code:
    """Writes the numbers from 0."""
    return call("torch.arange", arguments.static(0, "size"), **device_of(arguments))


def gathered(arguments: Arguments) -> Code:
    """Writes `gather`."""
    axis = arguments.number(2, "axis", 0) % arguments.rank()
    batch = arguments.number(3, "batch", 0)
    table, ids = arguments.tensor(0), arguments.tensor(1)
    count = arguments.rank(1) - batch
    if batch == 0:
        entries = [":"] * axis + [str(ids)]
        return Code(f"{table.within(ATOM)}[{', '.join(entries)}]")
    writer = arguments.writer
    if batch > 1:
        raise refuse(arguments.node, "a gather of several common axes")
    table = writer.simple(table, "table")
    if axis > batch:
        table = method(table, "movedim", str(axis), str(batch))
    first = re.match(r"[\w.]+?(?=\.movedim|$)", table.text)
    assert first is not None
    rows = call("torch.arange", f"{first[0]}.shape[0]", **device_of(arguments))
    row = ", ".join([":", *["None"] * count])
    found = Code(f"{table.within(ATOM)}[{rows}[{row}], {ids}]")
    if axis == batch:
        return found
    if count != 1:
        raise refuse(arguments.node, "ids of several axes behind a common one")
    return method(found, "movedim", str(batch), str(axis))


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
    numbers = call("torch.arange", classes, **device_of(arguments))
    same = Code(f"({method(ids, 'unsqueeze', '-1')} == {numbers})")
    return method(same, "to", FLOAT)


def rolled(arguments: Arguments) -> Code:
    """Writes `roll` by a number."""
    by = arguments.node_at(2, "by")
    assert by is not None
    if arguments.writer.seen.is_data(by):
        raise refuse(arguments.node, "a tensor says how far it is rolled")
    axis = str(arguments.number(1, "axis"))
    return call("torch.roll", arguments.tensor(0), arguments.static(2, "by"), axis)


def reversed_along(arguments: Arguments) -> Code:
    """Writes `reverse`."""
    return method(arguments.tensor(0), "flip", str(arguments.number(1, "axis")))
