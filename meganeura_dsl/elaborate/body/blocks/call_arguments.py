"""The arguments of a call, evaluated; a callee that nothing has the name of."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.other_names import Answer, other_names
from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.body.blocks.modes import TRAINING
from meganeura_dsl.elaborate.body.expressions.names import layer_named
from meganeura_dsl.elaborate.builtins.builtin_weights import WEIGHTS
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.problems.argument_cures import filled_input
from meganeura_dsl.elaborate.problems.layer_problems import AlwaysTraining
from meganeura_dsl.elaborate.problems.name_problems import UnknownName, UnreadName, WrongKind
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.standard_names import imports_of
from meganeura_dsl.elaborate.typecheck.expected_kinds import require_one, require_tensor
from meganeura_dsl.elaborate.values import ElabValue, Pattern, describe, is_tensor
from meganeura_dsl.syntax import ast


def call_arguments(call: ast.Call, piped: ElabValue | None, frame: Frame) -> Arguments:
    """Returns the arguments of a call, evaluated."""
    positional: list[ElabValue] = [] if piped is None else [piped]
    named: dict[str, ElabValue] = {}
    for argument in call.arguments:
        if isinstance(argument.value, ast.Rearrangement):
            value = Pattern(argument.value)
        elif call.callee == WEIGHTS:
            value = layer_named(argument.value, frame)
        else:
            value = frame.evaluate(argument.value)
            require_one(frame, argument.value.span, value)
        if argument.name is None:
            positional.append(value)
        elif argument.name == TRAINING and _is_true(argument.value):
            raise ProblemError(AlwaysTraining(frame.location(argument.span)))
        else:
            named[argument.name] = value
    for argument in call.inputs:
        assert not isinstance(argument.value, ast.Rearrangement)
        if argument.name is None:
            value = frame.evaluate(argument.value)
            _require_filled(call, value, positional, argument.value, frame)
            positional.append(require_tensor(argument.value, value, frame))
        else:
            named[argument.name] = frame.evaluate(argument.value)
    return Arguments(tuple(positional), named)


def _require_filled(
    call: ast.Call,
    value: ElabValue,
    before: Sequence[ElabValue],
    written: ast.Expression,
    frame: Frame,
) -> None:
    """Raise `ProblemError` for a number where a block takes a tensor with one for each."""
    declared = frame.module.find(call.callee)
    tensors = [each for each in before if is_tensor(each)]
    if not isinstance(value, int | float) or declared is None:
        return
    if not isinstance(declared[1], ast.Block) or len(tensors) >= len(declared[1].inputs):
        return
    cure = filled_input(declared[1], tensors, written.span.text)
    if cure is not None:
        wanted = f"a tensor as `{declared[1].inputs[len(tensors)].name}`"
        problem = WrongKind(frame.location(written.span), wanted, describe(value), cure)
        raise ProblemError(problem)


def unknown_callee(call: ast.Call, frame: Frame) -> ProblemError:
    """The error that nothing has the name of a call."""
    known = [*frame.layers, *frame.module.names(), *BUILTINS]
    location = frame.location(call.callee_span)
    declared = frame.module.find(call.callee)
    if declared is not None and isinstance(declared[1], ast.Optimizer):
        cure = Help("a run is given it", f"optimizer = {call.callee}(...)")
        return ProblemError(WrongKind(location, "a layer or a function", "an optimizer", cure))
    value = frame.names.get(call.callee)
    if value is not None:
        cure = f"a parameter that takes a block says so: `{call.callee}: block`"
        return ProblemError(WrongKind(location, "a layer or a function", describe(value), cure))
    kind = UnreadName if call.callee in frame.module.unread else UnknownName
    name = call.callee.rpartition(".")[2]
    foreign = other_names().get(name)
    if foreign is None and name != call.callee and name in known:
        foreign = Answer(f"its name is enough: `{name}`", ())
    if foreign is None and (lines := imports_of(call.callee)):
        foreign = Answer(f"a file of the standard library has it: {quoted(lines, 'or')}", ())
    close = tuple(
        name
        for name in nearest(call.callee, known)
        if call.callee_span.start not in _characters(frame.module.own.get(name))
    )
    return ProblemError(kind(location, call.callee, "layer or function", close, foreign))


def _characters(declaration: ast.Node | None) -> range:
    """Returns the range of a declaration's text in its file."""
    return range(0) if declaration is None else range(declaration.span.start, declaration.span.end)


def _is_true(node: ast.Node) -> bool:
    return isinstance(node, ast.Boolean) and node.value
