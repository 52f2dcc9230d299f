"""The arguments of a call: tensors, by the names of inputs, and configuration."""

from meganeura_dsl.elaborate.values import BlockValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter


def inputs_of(
    writer: BlockWriter, node: ast.Call, piped: ast.Expression | None
) -> tuple[list[ast.Expression], dict[str, ast.Expression]]:
    """The tensors that a call gives: by position, and by name."""
    places = [] if piped is None else [piped]
    named: dict[str, ast.Expression] = {}
    for each in node.arguments:
        if isinstance(each.value, ast.Rearrangement):
            continue
        if each.name is None and writer.seen.is_data(each.value):
            places.append(each.value)
        elif each.name is not None:
            named[each.name] = each.value
    for each in node.inputs:
        assert not isinstance(each.value, ast.Rearrangement)
        if each.name is None:
            places.append(each.value)
        else:
            named[each.name] = each.value
    return places, named


def given_tensors(
    writer: BlockWriter, node: ast.Call, piped: ast.Expression | None, block: ast.Block
) -> dict[str, ast.Expression]:
    """The tensors that a call gives a block, by the names of its inputs."""
    places, named = inputs_of(writer, node, piped)
    names = [each.name for each in block.inputs]
    found = dict(zip(names, places, strict=False))
    return {**found, **{name: each for name, each in named.items() if name in names}}


def is_direct(writer: BlockWriter, node: ast.Call, block: ast.Block) -> bool:
    """Returns True where a call itself gives all configuration of a block but the defaults."""
    if writer.env.get(node.callee) == "config":
        given = [each.signature[node.callee] for each in writer.instances]
        return all(
            isinstance(each, BlockValue) and not each.config and each.declaration is block
            for each in given
        )
    found = writer.instances[0].frame.module.find(node.callee)
    return found is not None and found[1] is block


def argument(
    writer: BlockWriter, node: ast.Call, block: ast.Block, name: str
) -> ast.Expression | None:
    """The expression that a call gives for an argument of a block; None where it gives none."""
    names = [each.name for each in block.parameters]
    place = names.index(name)
    positions = [
        each.value
        for each in node.arguments
        if each.name is None and not isinstance(each.value, ast.Rearrangement)
    ]
    plain = [each for each in positions if not writer.seen.is_data(each)]
    if place < len(plain):
        return plain[place]
    for each in node.arguments:
        if each.name == name and not isinstance(each.value, ast.Rearrangement):
            return each.value
    return None
