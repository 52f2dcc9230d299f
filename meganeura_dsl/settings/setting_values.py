"""Settings as they are written, under `run:` or after `--set`, before they are judged."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting
from meganeura_dsl.elaborate.values import Invocation, StaticValue
from meganeura_dsl.settings.choices import choice_of, is_data_word
from meganeura_dsl.settings.data_calls import DATA_CALLS
from meganeura_dsl.settings.run_settings import SETTINGS
from meganeura_dsl.settings.settings_context import NONE_DECLARED, Declared
from meganeura_dsl.settings.settings_problems import (
    OVERRIDE,
    MalformedOverride,
    NoArguments,
    NotASettingValue,
    UnnamedArgument,
)
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration

NONE = "none"
"""The word for a setting without a value."""

DEFAULT_CHOICES = {
    name: each.default_choice for name, each in SETTINGS.items() if each.default_choice
}
"""Settings that choose by a word, and the word where they are left out."""

RawSettings = Mapping[str, WrittenSetting]


def with_overrides(
    raw: RawSettings, overrides: Sequence[str], declared: Declared = NONE_DECLARED
) -> RawSettings:
    """The settings after `NAME=VALUE` and `NAME.ARGUMENT=VALUE` texts, the last one winning.

    Those for all paths come before those for some, which may take their word from them.
    """
    settings = dict(raw)
    targets = [(text, *_target(text)) for text in overrides]
    for text, name, argument in sorted(targets, key=lambda each: paths_of(each[1])[1] is not None):
        value = _value_of(text, name)
        if argument:
            choice = settings[name].value if name in settings else _unwritten(name, settings)
            if not isinstance(choice, Invocation):
                holder = _holder(argument, settings, declared)
                raise ProblemError(NoArguments(whole(text), name, argument, holder))
            arguments = {**choice.arguments, argument: value}
            value = Invocation(choice.name, arguments, choice.positional)
        settings[name] = WrittenSetting(value, whole(text))
    return settings


def whole(text: str) -> Span:
    """The whole text of an override, as a place to point at."""
    return Span(Source(OVERRIDE, text), 0, len(text))


_OVERRIDE = re.compile(
    r"""\s*(?P<name>[^\W\d]\w*)\s*(?P<paths>\["[^"\n]*"\])?\s*"""
    r"""(?:\.\s*(?P<argument>[^\W\d]\w*))?\s*=\s*(?P<value>.*\S)\s*""",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?\.?\d(?!.*(/|\.[A-Za-z]\w*$))", re.DOTALL)
"""Pattern of the start of a number; not of `2024.npz` or `2024/held`, which are paths."""
_KEY = re.compile(r'(?P<name>\w+)\["(?P<glob>[^"\n]*)"\]')


def paths_of(key: str) -> tuple[str, str | None]:
    """The name of a setting, and the glob of the paths it is for if it is for some."""
    found = _KEY.fullmatch(key)
    return (key, None) if found is None else (found["name"], found["glob"])


def _target(text: str) -> tuple[str, str]:
    """The key of a setting, and the name of its argument or nothing."""
    found = _OVERRIDE.fullmatch(text)
    if found is None:
        raise ProblemError(MalformedOverride(whole(text)))
    return f"{found['name']}{found['paths'] or ''}", found["argument"] or ""


def _value_of(text: str, name: str) -> StaticValue:
    found = _OVERRIDE.fullmatch(text)
    assert found is not None
    written = found["value"]
    word = written.partition("(")[0]
    is_call = name == "data" and written.endswith(")") and is_data_word(word)
    is_share = name == "validation" and _NUMBER.match(written) is not None
    setting = SETTINGS.get(name)
    is_none = written == NONE and setting is not None and setting.default is None
    is_value = written.startswith('"') or is_none or is_call or is_share
    if setting is not None and setting.is_bare and not is_value:
        return written
    return _read(_parse(text, written), text)


def _parse(text: str, written: str) -> ast.Expression:
    """The value of an override as an expression, which the language has as the body of a `def`."""
    found = outline(Source(OVERRIDE, f"def setting() = {written}\n"))
    definition, problems = parse_declaration(found[0])
    if len(found) > 1 or problems or not isinstance(definition, ast.Def):
        raise ProblemError(MalformedOverride(whole(text)))
    return definition.body


def _read(expression: ast.Expression | ast.Rearrangement, text: str) -> StaticValue:
    """The value an expression stands for, where it needs no names to stand for one."""
    match expression:
        case ast.Integer(value=value) | ast.Real(value=value):
            return value
        case ast.Text(value=value) | ast.Boolean(value=value):
            return value
        case ast.Unary(operator="-", operand=ast.Integer(value=value) | ast.Real(value=value)):
            return -value
        case ast.ListOf(items=items):
            return [_read(item, text) for item in items]
        case ast.Name(text=name):
            return Invocation(name, {})
        case ast.Call(label=None, callee=word, arguments=arguments, inputs=()) if (
            word in DATA_CALLS
        ):
            unnamed = [_read(each.value, text) for each in arguments if each.name is None]
            named = [_argument(each, text) for each in arguments if each.name is not None]
            return Invocation(word, dict(named), tuple(unnamed))
        case ast.Call(label=None, callee=name, arguments=arguments, inputs=()):
            return Invocation(name, dict(_argument(each, text) for each in arguments))
        case _:
            raise ProblemError(NotASettingValue(whole(text)))


def _argument(argument: ast.Argument, text: str) -> tuple[str, StaticValue]:
    if argument.name is None:
        raise ProblemError(UnnamedArgument(whole(text)))
    return argument.name, _read(argument.value, text)


def choice_of_all(settings: RawSettings, name: str) -> Invocation:
    """The choice of a setting for all paths: what is written, or else the default."""
    written = settings[name].value if name in settings else None
    return written if isinstance(written, Invocation) else Invocation(DEFAULT_CHOICES[name], {})


def _holder(argument: str, settings: RawSettings, declared: Declared) -> str:
    """Returns the setting whose choice has an argument of this name; empty if none has."""
    for name in DEFAULT_CHOICES:
        choice = choice_of(name, choice_of_all(settings, name).name, declared)
        if choice is not None and argument in [each.name for each in fields(choice)]:
            return name
    return ""


def _unwritten(key: str, settings: RawSettings) -> Invocation | None:
    """Returns the choice that an argument is for where none is written: that of all paths."""
    name, _ = paths_of(key)
    return Invocation(choice_of_all(settings, name).name, {}) if name in DEFAULT_CHOICES else None
