"""Statements of a block, as statements of its constructor and of `forward`."""

from collections.abc import Sequence
from typing import assert_never

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import Bound, without_rebound
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import range_of
from meganeura_runtime.export.source.tensor_code import entry_text
from meganeura_runtime.export.source.text import (
    Code,
    Compound,
    Create,
    Line,
    PathPart,
    Statement,
)

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
    before, bound = dict(writer.env), writer.bound
    ends: list[bool] = []
    inner: list[list[Statement]] = []
    for part, body in (
        (statement.then, forward.body),
        (statement.otherwise, forward.otherwise),
    ):
        writer.env, writer.bound = dict(before), bound
        writer.forward.append(body)
        writer.init.append([])
        ends.append(writer.run(part))
        inner.append(writer.init.pop())
        writer.forward.pop()
        before = {**before, **writer.env}
    writer.env, writer.bound = before, without_rebound(bound, statement)
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
    if not any(inner):
        return
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
            writer.scan(statement)
        case ast.Declare():
            _declare(writer, statement)
        case ast.Layer():
            writer.declare_layer(statement)
        case ast.Update():
            _update(writer, statement)
        case ast.If():
            raise AssertionError("a choice is written by `run`")
        case ast.Minimize() | ast.Project() | ast.Metric() | ast.Show() | ast.Run():
            raise refuse(statement, "it is part of a training")
        case _:
            assert_never(statement)
    return False


def _declare(writer: BlockWriter, statement: ast.Declare) -> None:
    if statement.kind == "cache":
        raise refuse(statement, "a cache")
    writer.declare(statement)
    match statement.path.parts:
        case (str(name),):
            writer.env[name] = "own"
        case _:
            return
    if statement.kind == "state" and _is_read_after_an_update(writer.block, name):
        own = writer.access([PathPart("word", name)], (name,))
        writer.emit(f"{writer.local(name)} = {own}", (writer.local(name),), effect=False)
        writer.env[name] = "local"


def _is_read_after_an_update(block: ast.Block, name: str) -> bool:
    nodes = [node for statement in block.body for node in walk(statement)]
    updates = [
        each.span.end
        for each in nodes
        if isinstance(each, ast.Update) and each.path.parts == (name,)
    ]
    return any(
        isinstance(each, ast.Name) and each.text == name and each.span.start >= min(updates)
        for each in nodes
        if updates
    )


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
        writer.note_bound(statement)
        now = {
            each.text: Bound(statement.value, at, writer.bound)
            for at, each in enumerate(statement.targets)
        }
        writer.bound = {**writer.bound, **now}
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
        f"for {variable} in {range_of(writer, statement, 'forward')}", binds=(variable,)
    )
    writer.forward[-1].append(forward)
    writer.forward.append(forward.body)
    writer.init.append([])
    writer.loops.append(statement)
    _note_loop(writer, statement)
    writer.run(statement.body)
    _note_loop(writer, statement)
    writer.loops.pop()
    writer.forward.pop()
    inner = writer.init.pop()
    if inner:
        try:
            head = f"for {variable} in {range_of(writer, statement, 'init')}"
        except ProblemError:
            if any(not isinstance(each, Line) for each in inner):
                raise
            return
        writer.init[-1].append(Compound(head, inner, binds=(variable,)))


def _note_loop(writer: BlockWriter, statement: ast.For) -> None:
    """Forgets the bindings of what a loop rebinds."""
    writer.bound = without_rebound(writer.bound, statement)
    writer.note_loop(statement)


def _part(writer: BlockWriter, statement: ast.Part) -> None:
    if statement.target.text in writer.collected:
        writer.collect(statement)
        return
    value = writer.expression(statement.value)
    entries = ", ".join(entry_text(writer, each) for each in statement.entries)
    writer.replace_part(writer.local(statement.target.text), entries, value)


def _update(writer: BlockWriter, statement: ast.Update) -> None:
    """Keeps a new state, whose gradient goes to what reads it behind this statement."""
    if statement.entries:
        raise refuse(statement, "a part of a cache")
    target = writer.updated(statement)
    steps = writer.steps(statement.path, "forward")
    value = writer.expression(statement.value)
    name = steps[0].text
    if len(steps) == 1 and writer.env.get(name) == "local":
        writer.emit(f"{writer.local(name)} = {value}", (writer.local(name),))
        value = Code(writer.local(name))
    writer.emit(f"{target} = {writer.detach(value)}")
