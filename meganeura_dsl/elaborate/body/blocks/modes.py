"""The mode of an application: `training=false` and `frozen=true`, which every one takes."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import UndecidedChoice, WrongKind
from meganeura_dsl.elaborate.scope.scope import MODES, Frame
from meganeura_dsl.elaborate.scope.state import Mode
from meganeura_dsl.elaborate.values import ElabValue, describe, is_condition, is_static
from meganeura_dsl.symbolic.assumptions import show_condition

TRAINING, FROZEN = MODES


def split_mode(
    named: Mapping[str, ElabValue],
) -> tuple[dict[str, ElabValue], dict[str, ElabValue]]:
    """Named arguments without the mode, and the mode."""
    mode = {name: value for name, value in named.items() if name in MODES}
    return {name: value for name, value in named.items() if name not in MODES}, mode


def mode_below(
    outer: Mapping[str, ElabValue], inner: Mapping[str, ElabValue], frame: Frame, span: Span
) -> dict[str, ElabValue]:
    """The mode of a part that is given `inner` where all is given `outer`."""
    final = {name: value for name, value in outer.items() if _is_final(name, value, frame, span)}
    return {**outer, **inner, **final}


def kept_below(mode: Mapping[str, ElabValue], frame: Frame, span: Span) -> Mode:
    """The mode of all applications of a part that is labelled with `mode`, or is such a model."""
    kept = mode_below(dict(frame.state.context.kept_mode), mode, frame, span)
    return tuple((name, value) for name, value in kept.items() if is_static(value))


def _is_final(name: str, value: ElabValue, frame: Frame, span: Span) -> bool:
    """A part that is in evaluation mode, or frozen, cannot be otherwise below."""
    return _holds(value, frame, span) is (name == FROZEN)


@contextmanager
def in_mode(mode: Mapping[str, ElabValue], frame: Frame, span: Span) -> Generator[None]:
    """Elaborates the `with` block, and all that it applies, in a mode."""
    context = frame.state.context
    if _is_final(TRAINING, mode.get(TRAINING, True), frame, span):
        context = replace(context, training=False)
    if _is_final(FROZEN, mode.get(FROZEN, False), frame, span):
        context = replace(context, frozen=True)
    with frame.state.within(training=context.training, frozen=context.frozen):
        yield


def _holds(value: ElabValue, frame: Frame, span: Span) -> bool | None:
    """True if a condition holds; None where a proof leaves it open, as no shape depends on it."""
    if not is_condition(value):
        raise ProblemError(WrongKind(frame.location(span), "a condition", describe(value)))
    truth = frame.facts.truth(value)
    if truth is None and frame.state.proof is None:
        raise ProblemError(UndecidedChoice(frame.location(span), show_condition(value)))
    return truth
