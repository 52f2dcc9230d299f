"""Layers that are applied with changed weights: `x |> net(weights=w)`."""

from collections.abc import Callable
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.builtins.builtin_weights import WEIGHTS, own_weights, require_like
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.layer_weights import names_below
from meganeura_dsl.elaborate.scope.linker import block_behind
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.state import GivenWeights
from meganeura_dsl.elaborate.typecheck.tensor_values import cast
from meganeura_dsl.elaborate.values import LayerWeights, Results, describe
from meganeura_dsl.syntax import ast

Applies = Callable[[ast.Call, BoundBlock, Arguments, Frame], Results]


def has_changed_weights(
    call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
) -> bool:
    """Returns True if a layer is given weights; a block may have a parameter of this name."""
    given = arguments.named.get(WEIGHTS)
    is_new = value.path is None and not isinstance(value.declaration, ast.Model)
    if given is None or (is_new and not isinstance(given, LayerWeights)):
        return False
    block = block_behind(value.module, value.declaration)
    if block is None or any(each.name == WEIGHTS for each in (*block.parameters, *block.inputs)):
        return False
    if not isinstance(given, LayerWeights):
        changed = f"{call.callee}(weights=0.9 * weights({call.callee}))"
        cure = Help("change those of the layer", changed)
        location = frame.location(call.span)
        raise ProblemError(WrongKind(location, "weights of a layer", describe(given), cure))
    return True


def apply_with_weights(
    call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame, apply: Applies
) -> Results:
    """Returns the results of a layer with other trained parameters than its own.

    States are read as they are, and stay so: what would be with other weights is no step.
    """
    given = arguments.named[WEIGHTS]
    assert isinstance(given, LayerWeights)
    is_new = value.path is None and not isinstance(value.declaration, ast.Model)
    if call.label is not None or is_new:
        location, found = frame.location(call.span), f"the block `{call.callee}`"
        cure = Help("apply it once, and then by its label", f"x |> {given.layer}(weights=...)")
        raise ProblemError(WrongKind(location, "a layer that has weights", found, cure))
    own = own_weights(value, frame, call.callee, call.span)
    state, parameters = frame.state, frame.state.body.parameters
    wanted = tuple((inner, state.body.leaves[name]) for inner, name in own.items())
    require_like(frame, call.span, given, LayerWeights(call.callee, wanted))
    tensors = {
        own[inner]: cast(frame, call.span, tensor, parameters[own[inner]].type.dtype)
        for inner, tensor in given.items
    }
    around = state.context.weights
    inside = GivenWeights({**(around.tensors if around else {}), **tensors})
    named = {name: each for name, each in arguments.named.items() if name != WEIGHTS}
    before = dict(state.body.updates)
    with state.within(weights=inside):
        results = apply(call, value, replace(arguments, named=named), frame)
    for name in names_below(value, frame).values():
        if name in before:
            state.body.updates[name] = before[name]
        else:
            state.body.updates.pop(name, None)
    return results
