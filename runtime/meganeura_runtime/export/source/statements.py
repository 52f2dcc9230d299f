"""Statements of a block, as statements of its constructor and of `forward`."""

from collections.abc import Sequence
from typing import assert_never

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.followed_widths import (
    enter_loop,
    follow_widths,
    without_rebound,
)
from meganeura_runtime.export.source.layers import declare_layer
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.parameters import declare
from meganeura_runtime.export.source.paths import path_key
from meganeura_runtime.export.source.tensor_code import entry_text
from meganeura_runtime.export.source.text import (
    POWER,
    Code,
    Compound,
    Create,
    Line,
    Statement,
    binary,
    call,
    method,
    negated,
)
from meganeura_runtime.export.source.widths import bound_in

LONG = 64
"""Columns from which on a chain of layers goes on in another statement."""


def run(writer: BlockWriter, statements: Sequence[ast.Statement]) -> bool:
    """Writes statements; returns True where a `return` ends them."""
    for at, statement in enumerate(statements):
        if isinstance(statement, ast.If):
            chosen = writer.seen.choice(statement)
            if chosen is not None:
                if writer.run(statement.then if chosen else statement.otherwise):
                    return True
                continue
            return _branch(writer, statement, statements[at + 1 :])
        if _statement(writer, statement):
            return True
    return False


def _branch(writer: BlockWriter, statement: ast.If, rest: Sequence[ast.Statement]) -> bool:
    """Writes a choice and what is behind it."""
    forward = Compound(f"if {writer.static(statement.condition, 'forward')}")
    try:
        init = Compound(f"if {writer.static(statement.condition, 'init')}")
    except ProblemError:
        init = None
    before, bound = dict(writer.env), writer.follow.bound
    ends: list[bool] = []
    inner: list[list[Statement]] = []
    for part, body in (
        (statement.then, forward.body),
        (statement.otherwise, forward.otherwise),
    ):
        writer.env, writer.follow.bound = dict(before), bound
        writer.forward.append(body)
        writer.init.append([])
        ends.append(writer.run(part))
        inner.append(writer.init.pop())
        writer.forward.pop()
        before = {**before, **writer.env}
    writer.env, writer.follow.bound = before, without_rebound(bound, statement)
    writer.forward[-1].append(forward)
    if any(ends) and rest and not all(ends):
        # Behind a `return`, the constructor goes on with what the other branch leads to.
        writer.init.append(inner[0 if ends[1] else 1])
        done = writer.run(rest)
        writer.init.pop()
        _branch_init(writer, statement, init, inner)
        return done
    _branch_init(writer, statement, init, inner)
    return all(ends) or writer.run(rest)


def _branch_init(
    writer: BlockWriter, statement: ast.If, init: Compound | None, inner: list[list[Statement]]
) -> None:
    if init is not None:
        init.body, init.otherwise = inner
        writer.init[-1].append(init)
    elif _depends_on_mode(statement.condition):
        writer.init[-1] += [*inner[0], *inner[1]]
    elif any(isinstance(each, Create | Compound) for part in inner for each in part):
        raise refuse(statement.condition, "the constructor does not know it")


def _depends_on_mode(condition: ast.Expression) -> bool:
    """Returns True for a choice of the mode: a constructor makes the layers of both sides."""
    return any(isinstance(each, ast.Name) and each.text == "training" for each in walk(condition))


def _statement(writer: BlockWriter, statement: ast.Statement) -> bool:
    match statement:
        case ast.Bind():
            _bind(writer, statement)
        case ast.Part():
            _part(writer, statement)
        case ast.Return(values=values):
            if len(values) == 1:
                _split_chain(writer, values[0], "x")
            texts = [str(writer.expression(each)) for each in values]
            writer.emit(f"return {', '.join(texts)}")
            return True
        case ast.For():
            _for(writer, statement)
        case ast.Scan():
            _scan(writer, statement)
        case ast.Declare():
            declare(writer, statement)
        case ast.Layer():
            declare_layer(writer, statement)
        case ast.Update():
            _update(writer, statement)
        case ast.If():
            raise AssertionError("a choice is written by `run`")
        case ast.Minimize() | ast.Project() | ast.Metric() | ast.Show() | ast.Run():
            raise refuse(statement, "it is part of a training")
        case _:
            assert_never(statement)
    return False


def _bind(writer: BlockWriter, statement: ast.Bind) -> None:
    names = tuple(writer.local(each.text) for each in statement.targets)
    target = ", ".join(names)
    if writer.seen.is_data(statement.value):
        if len(names) == 1:
            _split_chain(writer, statement.value, statement.targets[0].text)
        text = str(writer.expression(statement.value))
        if text != target:
            writer.emit(f"{target} = {text}", names, effect="self." in text)
        kind = "local"
        if writer.is_class:
            follow_widths(writer, statement)
    else:
        writer.emit(f"{target} = {writer.static(statement.value, 'forward')}", names, effect=False)
        if writer.is_class:
            _bind_in_init(writer, statement, target, names)
        kind = "static"
    for each in statement.targets:
        writer.env[each.text] = kind


def _split_chain(writer: BlockWriter, node: ast.Expression, target: str) -> None:
    """Writes the first stages of a long chain of layers as statements of their own."""
    stages: list[ast.Pipe] = []
    source = node
    while isinstance(source, ast.Pipe):
        stages.insert(0, source)
        source = source.source
    read = set[str]()
    for each in stages[1:]:
        read |= {n.text for n in walk(each.layer) if isinstance(n, ast.Name)}
    if len(stages) < 2 or target in read or writer.fill(node) is not None:
        return
    if target not in writer.env:
        writer.env[target] = "local"
    name = writer.local(target)
    for each in stages[:-1]:
        code = writer.expression(each)
        if len(code.text) > LONG:
            writer.emit(f"{name} = {code}", (name,))
            code = Code(name)
        writer.known_codes[each] = code


def _bind_in_init(
    writer: BlockWriter, statement: ast.Bind, target: str, names: tuple[str, ...]
) -> None:
    try:
        text = f"{target} = {writer.static(statement.value, 'init')}"
    except ProblemError:  # the constructor does not know it, and may not need it
        return
    writer.init[-1].append(Line(text, names, effect=False))


def _for(writer: BlockWriter, statement: ast.For) -> None:
    variable = writer.local(statement.variable.text)
    writer.env[statement.variable.text] = "static"
    forward = Compound(
        f"for {variable} in {_range(writer, statement, 'forward')}", binds=(variable,)
    )
    writer.forward[-1].append(forward)
    writer.forward.append(forward.body)
    writer.init.append([])
    writer.loops.append(statement)
    enter_loop(writer, statement)
    writer.run(statement.body)
    enter_loop(writer, statement)
    writer.loops.pop()
    writer.forward.pop()
    inner = writer.init.pop()
    if inner:
        try:
            head = f"for {variable} in {_range(writer, statement, 'init')}"
        except ProblemError:
            if any(not isinstance(each, Line) for each in inner):
                raise
            return
        writer.init[-1].append(Compound(head, inner, binds=(variable,)))


def _range(writer: BlockWriter, statement: ast.For | ast.Scan, where: str) -> Code:
    start, stop = writer.static(statement.start, where), writer.static(statement.stop, where)
    return call("range", stop) if start.text == "0" else call("range", start, stop)


def _scan(writer: BlockWriter, statement: ast.Scan) -> None:
    variable = statement.variable.text
    writer.env[variable] = "static"
    parts = [
        each
        for node in statement.body
        for each in walk(node)
        if isinstance(each, ast.Part)
        and each.target.text not in writer.env
        and each.target.text not in bound_in(statement)
    ]
    if parts and statement.condition is not None:
        raise refuse(parts[0], "a scan with a condition collects as much as data says")
    for part in parts:
        _collect(writer, part, statement)
    forward = Compound(f"for {writer.local(variable)} in {_range(writer, statement, 'forward')}")
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
        writer.emit(f"{name} = torch.stack({name}, dim={axis})", (name,), effect=False)
        writer.env[part.target.text] = "local"


def _collect(writer: BlockWriter, part: ast.Part, scan: ast.Scan) -> None:
    """Begins a list of what a scan collects: in order, or to be put where it belongs."""
    axis = _place_of(part)
    if part.target.text in writer.collected:
        raise refuse(part, "a scan that collects one tensor in two statements")
    writer.collected[part.target.text] = str(axis)
    name = writer.local(part.target.text)
    if _is_in_order(writer, part, scan):
        writer.emit(f"{name} = []")
        return
    start, stop = (writer.static(each, "forward") for each in (scan.start, scan.stop))
    count = stop if start.text == "0" else binary("-", stop, start)
    writer.emit(f"{name} = [None] * {count.within(POWER)}")


def _place_of(part: ast.Part) -> int:
    places = [at for at, each in enumerate(part.entries) if not _is_whole(each)]
    if len(places) != 1 or isinstance(part.entries[places[0]], ast.Range | ast.EllipsisEntry):
        raise refuse(part, "a scan that collects more than one slice in a round")
    return places[0]


def _is_in_order(writer: BlockWriter, part: ast.Part, scan: ast.Scan) -> bool:
    entry = part.entries[_place_of(part)]
    if isinstance(entry, ast.Name):
        entry = _round_of(writer, entry, scan)
    is_index = isinstance(entry, ast.Name) and entry.text == scan.variable.text
    return is_index and isinstance(scan.start, ast.Integer) and scan.start.value == 0


def _round_of(writer: BlockWriter, name: ast.Name, scan: ast.Scan) -> ast.Expression:
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


def _part(writer: BlockWriter, statement: ast.Part) -> None:
    name = writer.local(statement.target.text)
    value = writer.expression(statement.value)
    if statement.target.text in writer.collected:
        if any(_is_in_order(writer, statement, each) for each in writer.scans):
            writer.emit(f"{name}.append({value})")
        else:
            entry = entry_text(writer, statement.entries[_place_of(statement)])
            writer.emit(f"{name}[{entry}] = {value}")
        return
    entries = ", ".join(entry_text(writer, each) for each in statement.entries)
    writer.emit(f"{name} = {name}.clone()", (name,), effect=True)
    writer.emit(f"{name}[{entries}] = {value}")


def _update(writer: BlockWriter, statement: ast.Update) -> None:
    """Keeps a new state, whose gradient goes to what reads it behind this statement."""
    if statement.entries:
        raise refuse(statement, "a part of a cache")
    steps, key = writer.steps(statement.path, "forward"), path_key(statement.path)
    if key not in writer.paths.kinds:
        raise refuse(statement, "the state of another layer")
    value, target = writer.expression(statement.value), writer.paths.access(steps, key)
    name = steps[0].text
    if len(steps) == 1 and writer.env.get(name) == "local":
        writer.emit(f"{writer.local(name)} = {value}", (writer.local(name),))
        value = Code(writer.local(name))
    writer.emit(f"{target} = {method(value, 'detach')}")


def _is_whole(entry: ast.Entry) -> bool:
    return isinstance(entry, ast.Range) and entry.start is None and entry.stop is None
