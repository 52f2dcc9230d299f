"""Statements of a declaration that was refused, run for all that is wrong with it."""

from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.call_arguments import call_arguments, unknown_callee
from meganeura_dsl.elaborate.body.blocks.child_frames import child_frame
from meganeura_dsl.elaborate.body.expressions.inner_layers import layer_around
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.builtins.initial_values import take_initials
from meganeura_dsl.elaborate.problems.name_problems import MissingLabel
from meganeura_dsl.elaborate.scope.body import DECLARATIONS
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError, calls_of, is_plain
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.scope.weight_paths import own_parameters, sure_paths
from meganeura_dsl.elaborate.typecheck.argument_binding import bind_config, bind_inputs
from meganeura_dsl.elaborate.values import Results
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast


def run_recovered(
    statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
) -> Results | None:
    """Run a statement; behind one that fails or is left out, what it binds is unknown."""
    recovery = frame.state.recovery
    assert recovery is not None
    if not recovery.is_affected(statement):
        saved = frame.state.body.savepoint()
        try:
            results = frame.state.elaborator.run(statement, frame, rest)
        except ProblemError as error:
            recovery.add_failure(statement, error.problem)
        except (UndecidableError, NeedsInliningError):
            pass
        else:
            recovery.learn(statement)
            return results
        frame.state.body.undo(saved, DECLARATIONS)
    recovery.forget(statement, frame.layers)
    # In an update names of layers stand for their tensors.
    is_other = isinstance(statement, ast.If | ast.For | ast.Scan | ast.Update | ast.Project)
    for call, is_piped in calls_of(statement):
        try:
            _check_alone(call, frame, is_piped=is_piped, is_reached=not is_other)
        except ProblemError as error:
            recovery.add(error.problem)
        except (UndecidableError, NeedsInliningError):
            pass
    recovery.forget_new(statement, lambda name: _is_known(name, frame))
    if any(isinstance(node, ast.Return) for node in walk(statement)):
        raise EndOfPathError
    return None


def _check_alone(call: ast.Call, frame: Frame, *, is_piped: bool, is_reached: bool) -> None:
    """Raise what is wrong with a call whatever it is applied to.

    Unless it is surely reached, that is its name alone.
    """
    recovery = frame.state.recovery
    assert recovery is not None
    if call.path is not None or call.callee in recovery.unknown:
        return
    if call.callee in frame.names or call.callee in frame.layers:
        return
    if recovery.speaks(call) or layer_around(call.callee, frame)[0] is not None:
        return
    found = frame.module.find(call.callee)
    if found is None and call.callee not in BUILTINS:
        raise unknown_callee(call, frame)
    if not is_reached:
        return
    block = found[1] if found is not None and isinstance(found[1], ast.Block) else None
    path = "" if call.label is None else path_text(call.label, frame)
    if found is not None and block is not None:
        _claim_alone(call, found[0], block, path, frame)
    plain = [each for each in call.arguments if not isinstance(each.value, ast.Rearrangement)]
    is_open = any(recovery.speaks(each) or not is_plain(each) for each in plain)
    given = None if is_open else call_arguments(replace(call, inputs=()), None, frame)
    if found is None or block is None or given is None or call.inputs or not is_piped:
        return
    inner = child_frame(frame, found[0], block, call.span, frame.join(path))
    count = frame.build.count
    opaque_inputs = tuple(
        frame.build.add(Input(f"#{count}.{each.name}", DType.F32, ()))
        for each in block.inputs
        if each.default is None
    )
    config = replace(given, positional=(*opaque_inputs, *given.positional))
    left = bind_inputs(inner, block, config, call.span)
    left = take_initials(inner, block, left, call.span)
    bind_config(inner, block.name.text, block.parameters, left, call.span)


def _claim_alone(
    call: ast.Call, module: LinkedModule, block: ast.Block, path: str, frame: Frame
) -> None:
    """Reserve the paths of a layer that is not applied; refuse one without a label."""
    location = frame.location(call.span)
    owned = own_parameters(module, block) if call.label is None else ()
    if owned:
        raise ProblemError(MissingLabel(location, block.name.text, owned))
    for name in sure_paths(module, block) if path else ():
        frame.state.claim(f"{path}.{name}", location, path)


def _is_known(name: str, frame: Frame) -> bool:
    """True if the name is bound."""
    is_named = name in frame.names or name in frame.layers or name in BUILTINS
    return is_named or frame.module.find(name) is not None
