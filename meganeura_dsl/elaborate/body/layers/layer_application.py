"""Layers and block values applied: a first time, again with the same weights, or by a header.

A block value is a block with some of its configuration given. With a path it is a layer: what it is
applied to, its weights are the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.assumed_signatures import is_known_size
from meganeura_dsl.elaborate.body.blocks.block_application import instantiate
from meganeura_dsl.elaborate.body.blocks.child_frames import child_frame
from meganeura_dsl.elaborate.body.blocks.modes import in_mode, kept_below, mode_below, split_mode
from meganeura_dsl.elaborate.body.blocks.results import opaque_results
from meganeura_dsl.elaborate.body.expressions.labels import OWN_PATH, path_text
from meganeura_dsl.elaborate.body.layers.changed_weights import (
    apply_with_weights,
    has_changed_weights,
)
from meganeura_dsl.elaborate.body.layers.configuration import (
    configured,
    filled_in,
    refuse_configuration,
)
from meganeura_dsl.elaborate.body.layers.inner_layers import keep_layer
from meganeura_dsl.elaborate.builtins.initial_values import passed_on
from meganeura_dsl.elaborate.problems.layer_problems import HasWeights
from meganeura_dsl.elaborate.problems.path_problems import DuplicatePath
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import LinkedModule, block_behind, configuration
from meganeura_dsl.elaborate.scope.named_values import note_results
from meganeura_dsl.elaborate.scope.scope import MODES, Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import layer_text
from meganeura_dsl.elaborate.typecheck.argument_binding import bind_config, bind_inputs
from meganeura_dsl.elaborate.typecheck.input_matching import match_inputs
from meganeura_dsl.elaborate.typecheck.shape_patterns import solved_names
from meganeura_dsl.elaborate.typecheck.where_clauses import check_where
from meganeura_dsl.elaborate.values import ElabValue, NamedResults, Results, is_static, is_tensor
from meganeura_dsl.syntax import ast


def apply_value(
    call: ast.Call,
    value: BoundBlock,
    arguments: Arguments,
    piped: ElabValue | None,
    frame: Frame,
) -> ElabValue:
    """The results of a block; or where no tensor is given, the block with its configuration."""
    tensors = (*arguments.positional, *arguments.named.values())
    if piped is None and call.label is None and not any(map(is_tensor, tensors)):
        block = block_behind(value.module, value.declaration)
        if block is None or block.inputs:
            return configured(call, value, arguments, frame)
    results = apply_block(call, value, arguments, frame)
    if len(results) == 1:
        return results[0]
    names = _result_names(value)
    if not names:
        return results
    return NamedResults(layer_text(call), tuple(zip(names, results, strict=True)))


def _result_names(value: BoundBlock) -> tuple[str, ...]:
    """The names that a signature has for its results; none if it has none."""
    block = block_behind(value.module, value.declaration)
    return () if block is None else block.result_names


def apply_block(call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame) -> Results:
    """The results of a block value, applied as `call` says."""
    if has_changed_weights(call, value, arguments, frame):
        return apply_with_weights(call, value, arguments, frame, apply_block)
    if not any(name in MODES for name in (*arguments.named, *dict(value.config))):
        return _apply_bare(call, value, arguments, frame)
    config, own = split_mode(dict(value.config))
    named, mode = split_mode(arguments.named)
    bare = replace(value, config=tuple(each for each in value.config if each[0] in config))
    mode = mode_below(own, mode, frame, call.span)
    kept = frame.state.context.kept_mode
    if call.label is not None or own:
        kept = kept_below(own if call.label is None else mode, frame, call.span)
    with in_mode(mode, frame, call.span), frame.state.within(kept_mode=kept):
        results = _apply_bare(call, bare, replace(arguments, named=named), frame)
    if call.label is not None and mode:
        _remember_mode(call, mode, frame)
    return results


def _remember_mode(call: ast.Call, mode: Mapping[str, ElabValue], frame: Frame) -> None:
    """A layer that is applied again is in the mode it was labelled with."""
    assert call.label is not None
    name = path_text(call.label, frame) or OWN_PATH
    layer = frame.layers[name]
    static = tuple((each, value) for each, value in mode.items() if is_static(value))
    frame.layers[name] = replace(layer, config=(*layer.config, *static))


def _apply_bare(call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame) -> Results:
    if value.path is not None:
        results = _apply_again(call, value, arguments, frame)
        note_results(frame, value.path, results, _result_names(value))
        return results
    given = filled_in(call, value, arguments, frame)
    results = _apply_layer(call, value, given, frame)
    if call.label is not None:
        path = frame.join(path_text(call.label, frame))
        note_results(frame, path, results, _result_names(value))
    return results


def _apply_layer(call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame) -> Results:
    module, declaration = value.module, value.declaration
    label = "" if call.label is None else path_text(call.label, frame)
    path = frame.join(label)
    name = label or OWN_PATH
    if call.label is not None:
        known = frame.layers.get(name)
        if known is not None and known.declared is not None:
            location = frame.location(call.label.span)
            raise ProblemError(HasWeights(location, name, known.declared))
        if not call.label.parts:
            arguments = passed_on(arguments, call, frame)
    owns = call.label is not None or isinstance(declaration, ast.Model)
    config = arguments.config() if owns else ((), ())
    if value.is_contract:
        bound = replace(value, path=path)
        claims = call.label is not None
        results = _apply_contract(call, bound, arguments, frame, claims=claims)
    else:
        if call.label is None and isinstance(declaration, ast.Model):
            before = frame.state.body.models.get((declaration, path))
            if before == config:
                with frame.state.within(shared=True):
                    return instantiate(module, declaration, arguments, path, call.span, frame)
            frame.state.body.models[declaration, path] = config
            if before is not None:
                return _with_other_arguments(module, declaration, arguments, path, call, frame)
            with frame.state.shared_later(), frame.state.within(kept_mode=()):
                return instantiate(
                    module, declaration, arguments, path, call.span, frame, may_own=owns
                )
        results = instantiate(module, declaration, arguments, path, call.span, frame, may_own=owns)
    if call.label is not None:
        names = [each.name for each in configuration(module, declaration)]
        given = {**dict(zip(names, config[0], strict=False)), **dict(config[1])}
        frame.layers[name] = BoundBlock(
            declaration, tuple(given.items()), path, value.is_contract, module=module
        )
        if call.label.parts:
            keep_layer(frame.layers[name], frame)
    return results


def _apply_again(call: ast.Call, layer: BoundBlock, arguments: Arguments, frame: Frame) -> Results:
    assert layer.path is not None
    if call.label is not None:
        first = layer.declared or frame.location(call.span)
        raise ProblemError(HasWeights(frame.location(call.span), layer.path, first))
    refuse_configuration(call, arguments, frame)
    tensors = tuple(value for value in arguments.positional if is_tensor(value))
    given = Arguments(tensors, {**dict(layer.config), **arguments.named})
    is_first = layer.path in frame.state.body.unapplied_layers
    frame.state.body.unapplied_layers.discard(layer.path)
    if layer.is_contract:
        return _apply_contract(call, layer, given, frame, claims=is_first)
    state = frame.state
    again = state.context.again or frame.location(call.span)
    with state.shared_later() if is_first else state.within(shared=True, again=again):
        return instantiate(layer.module, layer.declaration, given, layer.path, call.span, frame)


def _with_other_arguments(
    module: LinkedModule,
    model: ast.Model,
    arguments: Arguments,
    path: str,
    call: ast.Call,
    frame: Frame,
) -> Results:
    """The results of a model that was applied with other arguments, where it has no weights."""
    try:
        return instantiate(module, model, arguments, path, call.span, frame, may_own=True)
    except ProblemError as error:
        if not isinstance(error.problem, DuplicatePath):
            raise
        location, name = frame.location(call.span), model.name.text
        raise ProblemError(replace(error.problem, location=location, model=name)) from error


def _apply_contract(
    call: ast.Call,
    value: BoundBlock,
    arguments: Arguments,
    frame: Frame,
    *,
    claims: bool,
) -> Results:
    """Returns the results, in a proof, of any block that fits a header."""
    block, path = value.declaration, value.path
    assert isinstance(block, ast.Block)
    assert path is not None
    inner = child_frame(frame, value.module, block, call.span, path)
    config = bind_inputs(inner, block, arguments, call.span)
    known = {each.name for each in block.parameters}
    for name in config.named:
        if name not in known:
            raise UndecidableError(f"whether `{block.name.text}` has a parameter `{name}`")
    bind_config(inner, block.name.text, block.parameters, config, call.span)
    match_inputs(inner, block, call.span)
    check_where(inner, block, lambda: frame.location(call.span))
    for name in solved_names(block):
        if not is_known_size(inner, name):
            raise UndecidableError(f"whether `{name}` of `{block.name.text}` is 1 or more")
    assert frame.state.proof is not None
    frame.state.proof.contracts.add(path)
    if claims:
        frame.state.claim(path, frame.location(call.span), inner.label)
        if path != frame.path:
            frame.state.claim_below(path, frame.location(call.span), inner.label)
    return opaque_results(inner, block, dict(inner.names))
