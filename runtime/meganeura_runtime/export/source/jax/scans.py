"""A scan as `jax.lax.scan`: a function of what is carried and of the index."""

from collections.abc import Iterator, Sequence

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import bound_in
from meganeura_runtime.export.source.jax.jax_writer import JaxWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.scans import (
    collect_part,
    collected_parts,
    index_of,
    is_in_order,
    place_of,
    scan_as_loop,
)
from meganeura_runtime.export.source.text import (
    Code,
    Compound,
    Line,
    Statement,
    binary,
    call,
    texts,
    words_of,
)


def write_scan(writer: JaxWriter, statement: ast.Scan) -> None:
    """Writes a scan; one whose index decides more than values is unrolled, as a loop of Python."""
    if _is_unrolled(writer, statement):
        scan_as_loop(writer, statement)
        return
    parts = collected_parts(writer, statement)
    if parts and statement.condition is not None:
        raise refuse(parts[0], "a scan with a condition collects as much as data says")
    before = dict(writer.env)
    carried = _carried(writer, statement)
    names = [writer.local(each) for each in carried]
    index = statement.variable.text
    writer.env[index] = "static"
    body: list[Statement] = []
    writer.forward.append(body)
    writer.scans.append(statement)
    for each in parts:
        writer.collected[each.target.text] = str(place_of(each))
        writer.outputs[each.target.text] = _place_name(writer, each, statement)
    condition = None
    if statement.condition is not None:
        condition = writer.expression(statement.condition)
    writer.run(statement.body)
    writer.scans.pop()
    writer.forward.pop()
    collected = [writer.collected.pop(each.target.text) for each in parts]
    outputs = [writer.local(each.target.text) for each in parts]
    places = [writer.outputs.pop(each.target.text) for each in parts]
    _emit(writer, statement, body, names, [*outputs, *filter(None, places)], condition)
    writer.env = before
    for part, name, place, axis in zip(parts, outputs, places, collected, strict=True):
        if place is not None:
            writer.emit(f"{name} = {name}.at[{place}].set({name})", (name,), effect=False)
        if axis != "0":
            writer.emit(f"{name} = {writer.move_axis(Code(name), 0, int(axis))}", (name,))
        writer.env[part.target.text] = "local"


def collect(writer: JaxWriter, statement: ast.Part) -> None:
    """Writes a slice that a scan collects, and where it belongs unless they come in order."""
    target = statement.target.text
    if target not in writer.outputs:
        collect_part(writer, statement)
        return
    name, place = writer.local(target), writer.outputs[target]
    value = writer.expression(statement.value)
    if value.text != name:
        writer.emit(f"{name} = {value}", (name,))
    if place is not None:
        writer.emit(f"{place} = {writer.expression(index_of(statement))}", (place,))


def _emit(
    writer: JaxWriter,
    statement: ast.Scan,
    body: list[Statement],
    carried: Sequence[str],
    outputs: Sequence[str],
    condition: Code | None,
) -> None:
    """Writes the function of an iteration, and its scan."""
    step, index = writer.new_name("step"), writer.local(statement.variable.text)
    start, stop = (writer.static(each, "forward") for each in (statement.start, statement.stop))
    numbers = call("jnp.arange", stop) if start.text == "0" else call("jnp.arange", start, stop)
    draws = any("keys" in words_of(text) for _, text in texts(body))
    given = _several(carried)
    lines: list[Statement] = []
    if draws:
        count = stop if start.text == "0" else binary("-", stop, start)
        writer.unit.draws = writer.source.draws_in_scans = True
        each = writer.new_name("each")
        lines += [Line(f"{index}, key = {each}"), Line("keys = random_keys(key)")]
        numbers = Code(f"({numbers}, jax.random.split(next(keys), {count}))")
        index = each
    kept = writer.new_name("carry")
    if condition is None:
        result = _several(outputs) if outputs else "None"
        lines = [*_unpacked(carried, kept), *lines, *body, Line(f"return {given}, {result}")]
        argument = carried[0] if len(carried) == 1 else kept
        initial = given if carried else "None"
        if not carried:
            lines[-1] = Line(f"return {kept}, {result}")
    else:
        inner = writer.new_name("go_on")
        argument = kept
        is_on = writer.new_name("is_on")
        again = [*_unpacked(carried, kept), *lines, *body, Line(f"return {given}")]
        name = carried[0] if len(carried) == 1 else kept
        lines = [
            Line(f"{', '.join([*carried, is_on])} = {kept}"),
            Compound(f"def {inner}({name})", again),
            Line(f"{is_on} = {binary('&', Code(is_on), Code(f'({condition})'))}"),
            Line(f"{given} = jax.lax.cond({is_on}, {inner}, lambda kept: kept, {given})"),
            Line(f"return {_tuple([*carried, is_on])}, None"),
        ]
        initial = _tuple([*carried, "jnp.array(True)"])
        given = _tuple([*carried, "_"])
    writer.forward[-1].append(Compound(f"def {step}({argument}, {index})", lines))
    target = given if carried else "_"
    found = _several(outputs) if outputs else "_"
    binds = (*carried, *outputs)
    writer.emit(f"{target}, {found} = {call('jax.lax.scan', step, initial, numbers)}", binds)


def _unpacked(carried: Sequence[str], kept: str) -> list[Statement]:
    return [Line(f"{', '.join(carried)} = {kept}")] if len(carried) > 1 else []


def _several(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else _tuple(names)


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def _place_name(writer: JaxWriter, part: ast.Part, statement: ast.Scan) -> str | None:
    """The name of where each slice belongs; None where they come in order."""
    if is_in_order(writer, part, statement) or _counts_from_start(part, statement):
        return None
    return writer.local(f"{part.target.text}_at")


def _counts_from_start(part: ast.Part, statement: ast.Scan) -> bool:
    """Returns True for `y[t - 1]` in a scan from 1."""
    match index_of(part), statement.start:
        case (
            ast.Binary(operator="-", left=ast.Name(text=text), right=ast.Integer(value=value)),
            ast.Integer(value=start),
        ):
            return text == statement.variable.text and value == start
        case _:
            return False


def _carried(writer: JaxWriter, statement: ast.Scan) -> list[str]:
    """The names that are bound before a scan and that it binds anew, in order."""
    parts = {
        each.target.text
        for node in statement.body
        for each in walk(node)
        if isinstance(each, ast.Part)
    }
    names = bound_in(statement) | parts
    return [name for name, kind in writer.env.items() if name in names and kind == "local"]


def _is_unrolled(writer: JaxWriter, statement: ast.Scan) -> bool:
    """Returns True where a state is updated, or the index decides a size, a layer or a choice."""
    names = {statement.variable.text}
    for node in (each for inner in statement.body for each in walk(inner)):
        if isinstance(node, ast.Update):
            return True
        is_number = isinstance(node, ast.Bind) and not writer.seen.is_data(node.value)
        if isinstance(node, ast.Bind) and is_number and _reads(node.value, names):
            names |= {each.text for each in node.targets}
    return any(
        _reads(part, names)
        for inner in statement.body
        for node in walk(inner)
        for part in _decisive(writer, node)
    )


def _reads(node: ast.Node, names: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.text in names for each in walk(node))


def _decisive(writer: JaxWriter, node: ast.Node) -> Iterator[ast.Node]:
    """The parts of a node that have to be known before any data is."""
    match node:
        case ast.If(condition=condition) | ast.Conditional(condition=condition):
            if writer.seen.choice(node) is None:
                yield condition
        case ast.For(start=start, stop=stop) | ast.Scan(start=start, stop=stop):
            yield from (start, stop)
        case ast.Range(start=start, stop=stop):
            yield from (each for each in (start, stop) if each is not None)
        case ast.Path(parts=parts):
            yield from (each for each in parts if isinstance(each, ast.Node))
        case ast.Call(arguments=arguments) if writer.seen.events(node):
            for each in arguments:
                if not writer.seen.is_data(each.value):
                    yield each.value
        case _:
            pass
