"""A scan as a loop of Python, which appends what is collected to lists."""

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import bound_in
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import range_of
from meganeura_runtime.export.source.text import POWER, Compound, Line, binary, negated


def scan_as_loop(writer: BlockWriter, statement: ast.Scan) -> None:
    """Writes a scan as a loop."""
    variable = statement.variable.text
    writer.env[variable] = "static"
    parts = collected_parts(writer, statement)
    if parts and statement.condition is not None:
        raise refuse(parts[0], "a scan with a condition collects as much as data says")
    for part in parts:
        _collect(writer, part, statement)
    forward = Compound(f"for {writer.local(variable)} in {range_of(writer, statement, 'forward')}")
    writer.forward[-1].append(forward)
    writer.forward.append(forward.body)
    writer.scans.append(statement)
    if statement.condition is not None:
        head = negated(f"if {writer.expression(statement.condition)}")
        writer.forward[-1].append(Compound(head, [Line("break")]))
    writer.run(statement.body)
    writer.scans.pop()
    writer.forward.pop()
    for part in parts:
        name = writer.local(part.target.text)
        axis = writer.collected.pop(part.target.text)
        writer.emit(f"{name} = {writer.stack(name, axis)}", (name,), effect=False)
        writer.env[part.target.text] = "local"


def collected_parts(writer: BlockWriter, statement: ast.Scan) -> list[ast.Part]:
    """The statements that write slices of what is not bound before the scan or in it."""
    return [
        each
        for node in statement.body
        for each in walk(node)
        if isinstance(each, ast.Part)
        and each.target.text not in writer.env
        and each.target.text not in bound_in(statement)
    ]


def collect_part(writer: BlockWriter, statement: ast.Part) -> None:
    """Writes a slice that a scan collects."""
    name = writer.local(statement.target.text)
    value = writer.expression(statement.value)
    if any(is_in_order(writer, statement, each) for each in writer.scans):
        writer.emit(f"{name}.append({value})")
    else:
        entry = writer.expression(index_of(statement))
        writer.emit(f"{name}[{entry}] = {value}")


def _collect(writer: BlockWriter, part: ast.Part, scan: ast.Scan) -> None:
    """Begins a list of what a scan collects: in order, or to be put where it belongs."""
    axis = place_of(part)
    if part.target.text in writer.collected:
        raise refuse(part, "a scan that collects one tensor in two statements")
    writer.collected[part.target.text] = str(axis)
    name = writer.local(part.target.text)
    if is_in_order(writer, part, scan):
        writer.emit(f"{name} = []")
        return
    start, stop = (writer.static(each, "forward") for each in (scan.start, scan.stop))
    count = stop if start.text == "0" else binary("-", stop, start)
    writer.emit(f"{name} = [None] * {count.within(POWER)}")


def place_of(part: ast.Part) -> int:
    """The axis along which a scan collects."""
    places = [at for at, each in enumerate(part.entries) if not _is_whole(each)]
    if len(places) != 1 or isinstance(part.entries[places[0]], ast.Range | ast.EllipsisEntry):
        raise refuse(part, "a scan that collects more than one slice in an iteration")
    return places[0]


def index_of(part: ast.Part) -> ast.Expression:
    """The place of a slice along that axis."""
    found = part.entries[place_of(part)]
    assert not isinstance(found, ast.Range | ast.EllipsisEntry)
    return found


def is_in_order(writer: BlockWriter, part: ast.Part, scan: ast.Scan) -> bool:
    """Returns True where slice 0 comes first, and the others in order."""
    entry = index_of(part)
    if isinstance(entry, ast.Name):
        entry = _iteration_of(writer, entry, scan)
    is_index = isinstance(entry, ast.Name) and entry.text == scan.variable.text
    return is_index and isinstance(scan.start, ast.Integer) and scan.start.value == 0


def _iteration_of(writer: BlockWriter, name: ast.Name, scan: ast.Scan) -> ast.Expression:
    """Returns the value of a name in a scan.

    It is `t` for `at = s - 1 - t if backwards else t` where `backwards` is always false.
    """
    for statement in scan.body:
        match statement:
            case ast.Bind(targets=(target,), value=value) if target.text == name.text:
                if isinstance(value, ast.Conditional):
                    chosen = writer.seen.choice(value)
                    return name if chosen is None else value.then if chosen else value.otherwise
                return value
            case _:
                pass
    return name


def _is_whole(entry: ast.Entry) -> bool:
    return isinstance(entry, ast.Range) and entry.start is None and entry.stop is None
