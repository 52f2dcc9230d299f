"""Parts of tensors that are read at positions."""

from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import ATOM, Code, call


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
    rows = writer.numbers(Code(f"{table.within(ATOM)}.shape[0]"))
    if axis > batch:
        table = writer.move_axis(table, axis, batch)
    row = ", ".join([":", *["None"] * count])
    found = Code(f"{table.within(ATOM)}[{rows}[{row}], {ids}]")
    if axis == batch:
        return found
    if count != 1:
        raise refuse(arguments.node, "ids of several axes behind a common one")
    return writer.move_axis(found, batch, axis)


def rolled(arguments: Arguments) -> Code:
    """Writes `roll` by a number."""
    by = arguments.node_at(2, "by")
    assert by is not None
    if arguments.writer.seen.is_data(by):
        raise refuse(arguments.node, "a tensor says how far it is rolled")
    axis = str(arguments.number(1, "axis"))
    return call(
        f"{arguments.writer.namespace}.roll", arguments.tensor(0), arguments.static(2, "by"), axis
    )
