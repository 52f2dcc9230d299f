"""Layers and blocks, applied."""

from collections.abc import Mapping

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.call_arguments import given_tensors
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code
from meganeura_runtime.export.source.unit import Unit

Given = Mapping[str, Code]
"""The texts of the tensors that a call gives a block, by the names of its inputs."""


def apply(writer: BlockWriter, node: ast.Call, piped: ast.Expression | None) -> Code:
    """A layer, a block, a function or a model, applied."""
    if any(each.name == "training" for each in node.arguments):
        raise refuse(node, "a layer in a mode of its own")
    events = writer.seen.events(node)
    if not events:
        return writer.builtin(node, piped)
    return writer.apply(node, events, given_tensors(writer, node, piped, events[0].child.block))


def referenced(writer: BlockWriter, node: ast.Call) -> ast.Path | None:
    """The path of the layer that a call applies again, or that a statement declared."""
    if node.path is not None:
        return node.path
    if node.label is None and node.callee in writer.declared:
        declared = writer.declared[node.callee]
        return declared.label if isinstance(declared, ast.Call) else declared.call.label
    return None


def tensors_of(node: ast.Call, unit: Unit, given: Given) -> list[Code]:
    """The tensors that a call gives a class or a function, in order."""
    found: list[Code] = []
    for each in unit.inputs:
        if each.name not in given:
            raise refuse(node, f"`{each.name}` has a default that is a tensor")
        found.append(given[each.name])
    return found
