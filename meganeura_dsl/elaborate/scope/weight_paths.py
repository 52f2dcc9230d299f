"""The paths on which a block owns weights under any configuration, from its text alone."""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast


def own_parameters(module: LinkedModule, block: ast.Block) -> tuple[str, ...]:
    """The names of what a block itself declares, states included."""
    return tuple(dict.fromkeys(node.path.span.text for node in _declared_here(module, block)))


def own_initials(module: LinkedModule, block: ast.Block) -> tuple[str, ...]:
    """The parameters a block itself declares, where an argument can have their name."""
    return tuple(
        dict.fromkeys(
            node.path.span.text
            for node in _declared_here(module, block)
            if node.kind in ("param", "frozen param") and node.path.span.text.isidentifier()
        )
    )


def own_paths(module: LinkedModule, block: ast.Block) -> tuple[str, ...]:
    """Returns the paths of a block's weights: the names it declares, and its layers' labels."""
    labels = [
        "".join(call.label.span.text.split())
        for _, each in _here(module, block)
        for call in _labelled(each)
        if call.label is not None and call.label.parts
    ]
    return tuple(dict.fromkeys([*own_parameters(module, block), *labels]))


def with_texts(block: ast.Block, path: str, given: Mapping[str, object]) -> str:
    """A path on which a block owns weights, with the texts and numbers that it was given.

    `w{suffix}` is another path for `""` than for `"_reverse"`. What the body binds stays in braces.
    """
    if "{" not in path or path not in _written_here(block):
        return path
    bound = _bound_in(block)

    def text(found: re.Match[str]) -> str:
        value = given.get(found[1])
        is_known = isinstance(value, str | int) and not isinstance(value, bool)
        is_given = any(each.name == found[1] for each in block.parameters)
        return str(value) if is_known and is_given and found[1] not in bound else found[0]

    return re.sub(r"\{\s*(\w+)\s*\}", text, path)


@cache
def _written_here(block: ast.Block) -> frozenset[str]:
    """The paths that a block itself writes, and none of those that the label `.` puts on its."""
    labels = (call.label for call in _labelled(block))
    return frozenset(
        [
            *(node.path.span.text for node in _declared(block.body)),
            *("".join(label.span.text.split()) for label in labels if label and label.parts),
        ]
    )


@cache
def _bound_in(block: ast.Block) -> frozenset[str]:
    """The names that the body of a block binds."""
    names: set[str] = set()
    for statement in block.body:
        for node in walk(statement):
            match node:
                case ast.Bind(targets=targets):
                    names.update(target.text for target in targets)
                case ast.For(variable=variable) | ast.Scan(variable=variable):
                    names.add(variable.text)
                case _:
                    pass
    return frozenset(names)


def sure_paths(module: LinkedModule, block: ast.Block) -> frozenset[str]:
    """Returns the paths on which a block has weights under any configuration."""
    return _sure(module, block, ())


def _sure(module: LinkedModule, block: ast.Block, around: tuple[ast.Block, ...]) -> frozenset[str]:
    found: set[str] = set()
    for statement in _always(block.body):
        if isinstance(statement, ast.Declare):
            found.add(statement.path.span.text)
        for call in walk(statement):
            if not isinstance(call, ast.Call) or call.label is None:
                continue
            inner = block_of(module, call)
            if inner is None or inner[1] in (block, *around):
                continue
            below = _sure(*inner, (block, *around))
            label = "".join(call.label.span.text.split())
            found |= ({label} if below else set()) if call.label.parts else below
    return frozenset(found)


def _always(statements: tuple[ast.Statement, ...]) -> Iterator[ast.Statement]:
    """The statements that are run whatever a block is given."""
    for statement in statements:
        nodes = list(walk(statement))
        if isinstance(statement, ast.If | ast.For | ast.Scan):
            if any(isinstance(node, ast.Return) for node in nodes):
                return
        elif not any(isinstance(node, ast.Conditional) for node in nodes):
            yield statement


def _declared_here(module: LinkedModule, block: ast.Block) -> Iterator[ast.Declare]:
    for _, each in _here(module, block):
        yield from _declared(each.body)


def _here(module: LinkedModule, block: ast.Block) -> list[tuple[LinkedModule, ast.Block]]:
    """A block and those that the label `.` puts on its path, each once."""
    found = [(module, block)]
    for owner, each in found:
        for call in _labelled(each):
            if call.label is not None and not call.label.parts:
                wrapped = block_of(owner, call)
                if wrapped is not None and wrapped not in found:
                    found.append(wrapped)
    return found


def block_of(module: LinkedModule, call: ast.Call) -> tuple[LinkedModule, ast.Block] | None:
    """The block a call applies on its own path, itself or through models."""
    seen: list[ast.Model] = []
    while (found := module.find(call.callee)) is not None:
        module, declaration = found
        match declaration:
            case ast.Block():
                return module, declaration
            case ast.Model(call=call) if declaration not in seen:
                seen.append(declaration)
                if call.label is not None and call.label.parts:
                    return None
            case _:
                return None
    return None


@cache
def _labelled(block: ast.Block) -> tuple[ast.Call, ...]:
    return tuple(
        node
        for statement in block.body
        for node in walk(statement)
        if isinstance(node, ast.Call) and node.label is not None
    )


def _declared(statements: tuple[ast.Statement, ...]) -> Iterator[ast.Declare]:
    for statement in statements:
        match statement:
            case ast.Declare():
                yield statement
            case ast.If(then=then, otherwise=otherwise):
                yield from _declared(then)
                yield from _declared(otherwise)
            case ast.For(body=body) | ast.Scan(body=body):
                yield from _declared(body)
            case _:
                pass
