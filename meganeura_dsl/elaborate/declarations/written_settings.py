"""The settings of runs: the lines under `run:`, evaluated."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR, EXPRESSIONS
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere, WrongKind
from meganeura_dsl.elaborate.problems.setting_problems import (
    LOSSES,
    NeverWarm,
    UnquotedSetting,
    as_written,
)
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.values import (
    BlockValue,
    ElabValue,
    Invocation,
    StaticValue,
    describe,
    is_initializer,
    is_static,
)
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.syntax import ast

PATH = re.compile(r"[\w-]+(/[\w.-]+)+")
"""Pattern of a path without quotes, which reads as a division."""
FROZEN = "frozen"
"""The word, in place of an optimizer, for parameters that nothing moves."""


@dataclass(frozen=True)
class WrittenSetting:
    """One line of `run:`, evaluated, and where it stands."""

    value: StaticValue
    span: Span


def setting_key(name: str, glob: str | None) -> str:
    """The key of a setting: its name, with the paths it is for: `optimizer["*.bias"]`."""
    return name if glob is None else f'{name}["{glob}"]'


def _invocation(call: ast.Call, frame: Frame) -> ElabValue:
    """A call in a setting is not applied: it is data for whoever reads the setting."""
    arguments: dict[str, StaticValue] = {}
    positional: list[StaticValue] = []
    refused = _no_data(call, frame)
    if call.inputs:
        raise refused
    for argument in call.arguments:
        value = (
            None
            if isinstance(argument.value, ast.Rearrangement)
            else frame.evaluate(argument.value)
        )
        if value is None or not is_static(value):
            raise refused
        if argument.name is None:
            positional.append(value)
        else:
            arguments[argument.name] = value
    return Invocation(call.callee, arguments, tuple(positional))


def _refuse_pipe(node: ast.Pipe, frame: Frame) -> ElabValue:
    frame.evaluate(node.source)
    raise _no_data(node.layer, frame)


def _no_data(call: ast.Call, frame: Frame) -> ProblemError:
    wanted = "a number, text or list"
    return ProblemError(WrongKind(frame.location(call.span), wanted, call.span.text))


SETTING_ELABORATOR = replace(
    ELABORATOR, expressions={**EXPRESSIONS, ast.Call: _invocation, ast.Pipe: _refuse_pipe}
)
"""Evaluates settings: numbers, texts, lists, and calls such as `adam(lr=1e-3)` kept as data."""


def evaluate_setting(module: LinkedModule, node: ast.Expression) -> StaticValue:
    """The value of one setting. Raises `ProblemError`."""
    if isinstance(node, ast.Name) and node.text == FROZEN:
        return Invocation(FROZEN, {})
    frame = Frame(ElaborationState(SETTING_ELABORATOR, Builder()), module, "run", {})
    value = frame.evaluate(node)
    if not is_static(value) or is_initializer(value) or isinstance(value, BlockValue):
        raise ProblemError(
            WrongKind(frame.location(node.span), "a number, text or list", describe(value))
        )
    return value


def _value(module: LinkedModule, setting: ast.Setting) -> StaticValue:
    """The value of a setting; the cure of a word alone is the value that it stands for."""
    node, name = setting.value, setting.name.text
    if name in LOSSES and not isinstance(node, ast.Text | ast.Integer | ast.Real):
        cure = Help("the loss is what `minimize` says: leave this line out")
        location = Location(setting.name.span)
        raise ProblemError(NotAllowedHere(location, f"`{name}`", "is no setting", cure))
    try:
        return evaluate_setting(module, node)
    except ProblemError as error:
        word = node.span.text
        is_word = isinstance(node, ast.Name | ast.Attribute) or PATH.fullmatch(word)
        written = as_written(name, word) if is_word else None
        if written is None:
            raise
        key = setting_key(name, setting.glob)
        problem = UnquotedSetting(Location(node.span), word, setting=key, value=written)
        raise ProblemError(problem) from error


def train_settings(module: LinkedModule, train: ast.Train) -> dict[str, WrittenSetting]:
    """The settings under `run:`, evaluated. Raises `ProblemError`."""
    settings: dict[str, WrittenSetting] = {}
    for statement in train.body:
        if isinstance(statement, ast.Run):
            for setting in statement.settings:
                name = setting_key(setting.name.text, setting.glob)
                if name in settings:
                    location = Location(setting.name.span)
                    cure, first = Help("leave out one of the lines"), settings[name].span
                    raise ProblemError(
                        NotAllowedHere(location, f"`{name}`", "is set twice", cure, first)
                    )
                value = _value(module, setting)
                settings[name] = WrittenSetting(value, setting.span)
    return settings


def setting_notes(settings: Mapping[str, WrittenSetting]) -> Iterator[Problem]:
    """The note on a schedule that warms up for as long as the run has steps, or longer."""
    steps, schedule = settings.get("steps"), settings.get("schedule")
    if steps is None or schedule is None or not isinstance(schedule.value, Invocation):
        return
    warmup = schedule.value.arguments.get("warmup")
    if isinstance(warmup, int) and isinstance(steps.value, int) and 0 < steps.value <= warmup:
        yield NeverWarm(Location(schedule.span), warmup, steps.value)
