"""Initial values of parameters as values of the language: `zeros`, `uniform(0.1)`."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.problems.name_problems import UnknownParameter, WrongKind
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.weight_paths import block_of, own_initials
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Invocation,
    describe,
    is_initializer,
    is_number,
)
from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Sinusoids,
    Uniform,
    Zeros,
)
from meganeura_dsl.syntax import ast

WORDS: Mapping[str, Initializer] = {"zeros": Zeros(), "ones": Ones()}
"""Initializers without brackets."""

CONSTANT: Mapping[str, Initializer] = {
    "kaiming_uniform": KaimingUniform(),
    "sinusoids": Sinusoids(),
}
"""Initializers with empty brackets."""

SCALED: Mapping[str, tuple[str, Callable[[float], Initializer]]] = {
    "uniform": ("bound", Uniform),
    "normal": ("std", Normal),
}
"""Initializers of one number, and the name of that number."""


def initial_call(call: BuiltinCall) -> Initializer:
    """The initializer of a call such as `uniform(0.1)`. Raises `ProblemError`."""
    if call.name not in SCALED:
        return CONSTANT[call.name]
    name, make = SCALED[call.name]
    value = call.option(0, name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise call.wrong(f"0 or more as `{name}`", value)
        return make(float(value))
    if call.frame.state.proof is not None and is_number(value):
        return make(0.0)
    raise call.wrong("a number that is known before any data is", value)


def initial_setting(value: Invocation) -> Initializer | None:
    """The initializer of a setting such as `zeros` or `normal(std=0.1)`, if it is one."""
    if value.name in SCALED:
        name, make = SCALED[value.name]
        number = value.arguments.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool) and number >= 0:
            return make(float(number))
        return None
    return None if value.arguments else {**WORDS, **CONSTANT}.get(value.name)


def as_initializer(value: ElabValue, frame: Frame) -> Initializer | None:
    """Returns the initializer that a value stands for, or None if it cannot be one."""
    if is_initializer(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Full(float(value))
    if frame.state.proof is not None and is_number(value):
        return Full(0.0)
    return None


def take_initials(inner: Frame, block: ast.Block, arguments: Arguments, span: Span) -> Arguments:
    """Let arguments say how parameters of the block begin; what is left is configuration.

    An argument that is no configuration and has the name of a parameter says how that begins. One
    that is configuration too, as `bias` of `linear`, does so if it is an initial value; it stays
    configuration, where an initial value counts as true. Raises `ProblemError`.
    """
    if not arguments.named and not any(map(is_initializer, arguments.positional)):
        return arguments
    config = [parameter.name for parameter in block.parameters]
    given = {**dict(zip(config, arguments.positional, strict=False)), **arguments.named}
    if not any(name not in config or is_initializer(value) for name, value in given.items()):
        return arguments
    own = own_initials(inner.module, block)
    location = inner.caller_location(span)
    for name, value in given.items():
        if name in own and (name not in config or is_initializer(value)):
            initializer = as_initializer(value, inner)
            if initializer is None:
                wanted = f"an initial value for `{name}`, such as `zeros`"
                raise ProblemError(WrongKind(location, wanted, describe(value)))
            inner.initials[name] = initializer
        elif name not in config and is_initializer(value):
            raise ProblemError(UnknownParameter(location, block.name.text, name, own))
    kept = {
        name: value
        for name, value in arguments.named.items()
        if name in config or name not in inner.initials
    }
    return replace(arguments, named=kept)


def passed_on(arguments: Arguments, call: ast.Call, frame: Frame) -> Arguments:
    """The arguments of a layer labelled `.`, whose parameters are those of the block around it.

    They get the initial values that the block was given for its own.
    """
    wrapped = block_of(frame.module, call)
    own = () if wrapped is None else own_initials(*wrapped)
    given = {name: each for name, each in frame.initials.items() if name in own}
    return replace(arguments, named={**arguments.named, **given})
