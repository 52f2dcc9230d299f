"""Block values: a block with some of its configuration given."""

from collections.abc import Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.location import counted
from meganeura_dsl.elaborate.problems.name_problems import WrongArguments
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import block_behind, configuration
from meganeura_dsl.elaborate.scope.scope import MODES, Frame
from meganeura_dsl.elaborate.scope.weight_paths import own_initials
from meganeura_dsl.elaborate.typecheck.argument_binding import signature
from meganeura_dsl.elaborate.values import ElabValue, is_static, is_tensor
from meganeura_dsl.syntax import ast


def configured(call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame) -> BoundBlock:
    """A block with more of its configuration given."""
    if value.path is not None:
        refuse_configuration(call, arguments, frame)
    block = block_behind(value.module, value.declaration)
    names = [each.name for each in configuration(value.module, value.declaration)]
    _refuse_number_for_tensor(call, block, arguments, frame)
    given = filled_in(call, value, arguments, frame)
    known = [*names, *MODES, *(() if block is None else own_initials(value.module, block))]
    config = _by_name(call, names, given, frame)
    unknown = next((name for name in config if name not in known), None)
    if unknown is not None:
        form = signature(value.name, configuration(value.module, value.declaration))
        fault = f"has no argument `{unknown}`"
        free = tuple(name for name in names if name not in config)
        raise ProblemError(
            WrongArguments(frame.location(call.span), value.name, fault, form, unknown, free)
        )
    static = tuple((name, each) for name, each in config.items() if is_static(each))
    return replace(value, config=static, span=call.span)


def filled_in(call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame) -> Arguments:
    """The arguments, with what the block value was given; positions count what is left."""
    if not value.config:
        return arguments
    given = dict(value.config)
    left = [
        each.name
        for each in configuration(value.module, value.declaration)
        if each.name not in given
    ]
    tensors = tuple(each for each in arguments.positional if is_tensor(each))
    named = _by_name(call, left, arguments, frame)
    twice = next((name for name in named if name in given and name not in MODES), None)
    if twice is not None:
        fault = f"got `{twice}` twice"
        form = signature(value.name, configuration(value.module, value.declaration))
        raise ProblemError(WrongArguments(frame.location(call.span), value.name, fault, form))
    return Arguments(tensors, {**given, **named})


def _by_name(
    call: ast.Call, names: Sequence[str], arguments: Arguments, frame: Frame
) -> dict[str, ElabValue]:
    """Configuration by name, where positions are those of `names`."""
    positional = [each for each in arguments.positional if not is_tensor(each)]
    if len(positional) > len(names):
        fault = f"got {counted(len(positional) - len(names), 'argument')} too many"
        form = f"{call.callee}({', '.join(names)})"
        raise ProblemError(WrongArguments(frame.location(call.span), call.callee, fault, form))
    by_position = dict(zip(names, positional, strict=False))
    twice = next((name for name in by_position if name in arguments.named), None)
    if twice is not None:
        form, fault = f"{call.callee}({', '.join(names)})", f"got `{twice}` twice"
        location = frame.location(call.span)
        raise ProblemError(WrongArguments(location, call.callee, fault, form, is_repeated=True))
    return {**by_position, **arguments.named}


def _refuse_number_for_tensor(
    call: ast.Call, block: ast.Block | None, arguments: Arguments, frame: Frame
) -> None:
    """Something is given where a tensor is due, and no tensor."""
    if block is None:
        return
    fault = next(
        (
            f"needs a tensor as `{each.name}`"
            for each in block.inputs
            if each.name in arguments.named
        ),
        "",
    )
    if arguments.positional and not block.parameters:
        fault = f"needs a tensor `{block.inputs[0].name}`"
    if fault:
        form = signature(call.callee, block.parameters, block.inputs)
        raise ProblemError(WrongArguments(frame.location(call.span), call.callee, fault, form))


def refuse_configuration(call: ast.Call, arguments: Arguments, frame: Frame) -> None:
    """A layer that is in scope has its configuration."""
    static = [each for each in arguments.positional if not is_tensor(each)]
    named = [
        name
        for name, value in arguments.named.items()
        if not is_tensor(value) and name not in MODES
    ]
    if static or named:
        fault = "is applied again, so its configuration is fixed"
        raise ProblemError(
            WrongArguments(frame.location(call.span), call.callee, fault, f"x |> {call.callee}")
        )
