"""`layer` statements."""

from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.call_arguments import call_arguments, unknown_callee
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.body.layers.configuration import configured
from meganeura_dsl.elaborate.body.layers.inner_layers import keep_layer
from meganeura_dsl.elaborate.body.layers.layer_copies import source_path
from meganeura_dsl.elaborate.body.layers.lookup import layer_in_scope
from meganeura_dsl.elaborate.problems.layer_problems import HasWeights
from meganeura_dsl.elaborate.problems.name_problems import WrongArguments, WrongKind
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import describe
from meganeura_dsl.syntax import ast


def declare_layer(statement: ast.Layer, frame: Frame) -> None:
    """Make a layer known under its path; its weights are made when it is first applied."""
    call = statement.call
    assert call.label is not None
    name, location = path_text(call.label, frame), frame.location(statement.span)
    if name in frame.layers:
        first = frame.layers[name].declared
        raise ProblemError(HasWeights(location, name, first or location))
    if call.inputs:
        fault = "is declared here, and gets its tensors where it is applied"
        form = f"x |> {name}"
        raise ProblemError(WrongArguments(location, call.callee, fault, form))
    value = _declared_block(call, frame)
    if value.path is not None:
        wanted, found = "a block, whose weights are new", describe(value)
        raise ProblemError(WrongKind(frame.location(call.callee_span), wanted, found))
    path = frame.join(name)
    frame.state.body.declared_layers.setdefault(path, len(frame.state.body.parameters))
    frame.state.body.unapplied_layers.add(path)
    frame.layers[name] = replace(value, path=path, declared=location)
    keep_layer(frame.layers[name], frame)
    if frame.state.loops.open and not frame.state.context.shared:
        frame.state.note_repeated(path, HasWeights(location, name, location))
    if statement.source is not None:
        other = path_text(statement.source, frame)
        frame.state.body.copies[path] = source_path(statement.source, other, frame), location


def _declared_block(call: ast.Call, frame: Frame) -> BoundBlock:
    """The block, with its configuration, that a `layer` statement names."""
    arguments = call_arguments(call, None, frame)
    value = layer_in_scope(replace(call, label=None), frame)
    if value is None:
        found = frame.module.find(call.callee)
        if found is None or isinstance(found[1], ast.Def | ast.Optimizer):
            raise unknown_callee(call, frame)
        value = BoundBlock(found[1], module=found[0])
    return configured(call, value, arguments, frame)
