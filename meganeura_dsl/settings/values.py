"""What a `run:` block and `--set` say, as written: values and their places, not yet judged.

The judging, in `resolve`, needs pydantic. This needs only the syntax tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.settings.problems import (
    MalformedOverride,
    NoArguments,
    NotASettingValue,
    UnnamedArgument,
)
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax.ast import (
    Argument,
    Boolean,
    Call,
    Expression,
    Integer,
    ListOf,
    Name,
    Real,
    Rearrangement,
    Text,
    Unary,
)
from meganeura_dsl.syntax.parser import parse_expression

OVERRIDE = "--set"
"""The name under which the text of an override is shown in messages."""

BARE_TEXTS = ("data", "device")
"""Settings that are texts: on a command line, where a shell eats quotes, they may go without."""

DEFAULT_CHOICES = {"optimizer": "adam", "schedule": "constant"}
"""Settings that choose by a word, and the word where they are left out."""

SettingValue: TypeAlias = "int | float | str | bool | list[SettingValue] | Invocation"


@dataclass(frozen=True)
class Invocation:
    """`adam(lr=1e-3)`, or a bare word such as `constant`: a choice and its arguments."""

    name: str
    arguments: Mapping[str, SettingValue]


@dataclass(frozen=True)
class RawSetting:
    """One setting as written, and where."""

    value: SettingValue
    span: Span


RawSettings = Mapping[str, RawSetting]


def read_value(expression: Expression | Rearrangement) -> SettingValue:
    """The value an expression stands for; raises `ProblemError` where it stands for none."""
    match expression:
        case Integer(value=value) | Real(value=value) | Text(value=value) | Boolean(value=value):
            return value
        case Unary(operator="-", operand=Integer(value=value) | Real(value=value)):
            return -value
        case ListOf(items=items):
            return [read_value(item) for item in items]
        case Name(text=name):
            return Invocation(name, {})
        case Call(label=None, callee=name, arguments=arguments, inputs=()):
            return Invocation(name, dict(_named(argument) for argument in arguments))
        case _:
            raise ProblemError(NotASettingValue(expression.span))


def _named(argument: Argument) -> tuple[str, SettingValue]:
    if argument.name is None:
        raise ProblemError(UnnamedArgument(argument.span))
    return argument.name, read_value(argument.value)


def with_overrides(raw: RawSettings, overrides: Sequence[str]) -> RawSettings:
    """The settings after `NAME=VALUE` and `NAME.ARGUMENT=VALUE` texts, the last one winning."""
    settings = dict(raw)
    for text in overrides:
        name, _, argument = _target(text).partition(".")
        value = _override_value(text, name)
        if argument:
            choice = settings[name].value if name in settings else _default_choice(name)
            if not isinstance(choice, Invocation):
                raise ProblemError(NoArguments(whole(text), name))
            value = Invocation(choice.name, {**choice.arguments, argument: value})
        settings[name] = RawSetting(value, whole(text))
    return settings


def whole(text: str) -> Span:
    """The whole text of an override, as a place to point at."""
    return Span(Source(OVERRIDE, text), 0, len(text))


def _target(text: str) -> str:
    name, equals, value = text.partition("=")
    words = name.strip().split(".")
    if not equals or not value.strip() or len(words) > 2 or not all(map(str.isidentifier, words)):
        raise ProblemError(MalformedOverride(whole(text)))
    return ".".join(words)


def _override_value(text: str, name: str) -> SettingValue:
    start = text.index("=") + 1
    written = text[start:].strip()
    if name in BARE_TEXTS and not written.startswith('"'):
        return written
    return read_value(parse_expression(Source(OVERRIDE, text), start))


def _default_choice(name: str) -> Invocation | None:
    return Invocation(DEFAULT_CHOICES[name], {}) if name in DEFAULT_CHOICES else None
