"""Calls: of built-in functions, of `def`, of blocks, models and layers."""

from meganeura_dsl.elaborate.body.blocks.call_arguments import call_arguments, unknown_callee
from meganeura_dsl.elaborate.body.blocks.child_frames import child_frame
from meganeura_dsl.elaborate.body.blocks.layer_templates import is_hashable
from meganeura_dsl.elaborate.body.layers.layer_application import apply_value
from meganeura_dsl.elaborate.body.layers.lookup import layer_in_scope
from meganeura_dsl.elaborate.builtins.builtin_call import Builtin, BuiltinCall
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import layer_text
from meganeura_dsl.elaborate.typecheck.argument_binding import bind_config
from meganeura_dsl.elaborate.typecheck.expected_kinds import require_one
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted
from meganeura_dsl.elaborate.typecheck.library_numbers import require_whole_numbers
from meganeura_dsl.elaborate.values import ElabValue, is_tensor
from meganeura_dsl.syntax import ast


def evaluate_call(node: ast.Call, frame: Frame) -> ElabValue:
    """The value of a call."""
    return apply(node, None, frame)


def evaluate_pipe(node: ast.Pipe, frame: Frame) -> ElabValue:
    """The value of `x |> layer`."""
    value = lifted(frame, node.source.span, frame.evaluate(node.source))
    require_one(frame, node.source.span, value)
    result = apply(node.layer, value, frame)
    if is_tensor(result) and not frame.module.is_library:
        frame.state.body.bindings.append(
            Binding(node.layer.span, layer_text(node.layer), frame.path, result.type)
        )
    return result


def apply(call: ast.Call, piped: ElabValue | None, frame: Frame) -> ElabValue:
    """A builtin, a def, a block, a model or a labelled layer in scope, applied."""
    arguments = call_arguments(call, piped, frame)
    known = layer_in_scope(call, frame)
    if known is not None:
        return apply_value(call, known, arguments, piped, frame)
    found = frame.module.find(call.callee)
    if found is None:
        builtin = BUILTINS.get(call.callee)
        if builtin is None:
            raise unknown_callee(call, frame)
        return _apply_builtin(call, builtin, arguments, frame)
    module, declaration = found
    match declaration:
        case ast.Optimizer():
            raise unknown_callee(call, frame)
        case ast.Def():
            return _apply_def(call, module, declaration, arguments, frame)
        case ast.Block() | ast.Model():
            if module.is_library and isinstance(declaration, ast.Block):
                require_whole_numbers(call, declaration, arguments, frame)
            value = BoundBlock(declaration, module=module)
            return apply_value(call, value, arguments, piped, frame)


def _apply_builtin(
    call: ast.Call, builtin: Builtin, arguments: Arguments, frame: Frame
) -> ElabValue:
    built = BuiltinCall(frame, call, builtin.signature, arguments.positional, arguments.named)
    return builtin.called(built)


def _apply_def(
    call: ast.Call,
    module: LinkedModule,
    declaration: ast.Def,
    arguments: Arguments,
    frame: Frame,
) -> ElabValue:
    known = frame.state.memo.def_results
    given = (*arguments.positional, *arguments.named.values())
    kinds = tuple(map(type, given))  # 1 is true and 1.0 to a dict, and no other number is
    key = (
        declaration,
        frame.facts,
        frame.state.context.training,
        frame.state.context.weights,
        frame.state.iterations_open,
        kinds,
        arguments.positional,
        tuple(arguments.named.items()),
    )
    if is_hashable(key) and key in known:
        return known[key]
    inner = child_frame(frame, module, declaration, call.span, frame.path)
    streams = dict(frame.state.body.streams)
    name, parameters = declaration.name.text, declaration.parameters
    bind_config(inner, name, parameters, arguments, call.span)
    result = inner.evaluate(declaration.body)
    made_no_choice, drew_nothing = frame.facts is key[1], frame.state.body.streams == streams
    if made_no_choice and drew_nothing and is_hashable(key):
        known[key] = result
    return result
