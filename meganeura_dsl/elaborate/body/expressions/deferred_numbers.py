"""Numbers that depend on what symbols stand for: `d ** -0.5` where `d` is any of several numbers.

In an application in symbols such a number has no value. Where it scales a tensor or says how a
parameter begins, no type and no name depends on it, so its expression is evaluated later, in each
application that a symbol gets a number from: there it is a number, or has none, as `1 / (c - 8)`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.builtins.initial_values import as_initializer
from meganeura_dsl.elaborate.problems.parameter_problems import MissingInitial
from meganeura_dsl.elaborate.scope.deferred import DeferredNumber
from meganeura_dsl.elaborate.scope.proof import Abstraction
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import Axes, ElabValue
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.initializers import Initializer
from meganeura_dsl.limits.work_budget import spend, steps_left
from meganeura_dsl.symbolic.size import Dim, Size, substitute
from meganeura_dsl.syntax import ast

MOST_NUMBERS = 256
"""Cached numbers of one expression; the cache is cleared when it is full."""


def with_sizes(
    deferred: DeferredNumber[Frame], sizes: Mapping[str, Size], state: ElaborationState
) -> Initializer | DeferredNumber[Frame] | None:
    """Returns the initial value for these sizes; None if they give no such number.

    The same expression, where its names are still symbols. Raises `ProblemError` where the number
    has no value. Where all names are whole numbers, it is the same each time, as are its steps.
    """
    names = {name: _at(value, sizes) for name, value in deferred.frame.names.items()}
    try:
        if state.build.facts.is_contradictory or not _are_numbers(names.values()):
            return _evaluated(deferred, _with_names(deferred, names, state))
        return _remembered(deferred, names, state)
    except UndecidableError:
        return replace(deferred, frame=_with_names(deferred, names, state))


def _with_names(
    deferred: DeferredNumber[Frame], names: dict[str, ElabValue], state: ElaborationState
) -> Frame:
    """The frame of a number where its names are these values."""
    return replace(deferred.frame, state=_alone(state), names=names)


def _are_numbers(values: Iterable[ElabValue]) -> bool:
    return all(isinstance(each, int) for each in values)


def _remembered(
    deferred: DeferredNumber[Frame], names: dict[str, ElabValue], state: ElaborationState
) -> Initializer | None:
    """Returns `_evaluated(...)`, computed once for equal numbers, with its steps counted."""
    key = state.context.training, tuple([(type(each), each) for each in names.values()])
    if key in deferred.known:
        found, steps = deferred.known[key]
        spend(steps)
        return found
    before = steps_left()
    found = _evaluated(deferred, _with_names(deferred, names, state))
    after = steps_left()
    if before is not None and after is not None:
        if len(deferred.known) >= MOST_NUMBERS:
            deferred.known.clear()
        deferred.known[key] = found, before - after
    return found


def _evaluated(deferred: DeferredNumber[Frame], frame: Frame) -> Initializer | None:
    """Returns the initial value of a parameter, if any.

    Raises `ProblemError`, `UndecidableError`.
    """
    value = frame.evaluate(deferred.node)
    if not deferred.parameter:
        return None
    found = as_initializer(value, frame)
    if found is None:
        node = deferred.node
        location = frame.location(node.span)
        raise ProblemError(MissingInitial(location, deferred.parameter, node.span.text))
    return found


def defer(node: ast.Expression, frame: Frame, parameter: str = "") -> None:
    """Leave a number to those who know what symbols stand for.

    Raises `UndecidableError` where it depends on more than sizes and numbers.
    """
    read = {each.text for each in walk(node) if isinstance(each, ast.Name)}
    names = {name: frame.names[name] for name in read if name in frame.names}
    if not all(isinstance(each, bool | int | float | Dim | Axes) for each in names.values()):
        raise UndecidableError("a number depends on one that a symbol stands for")
    inner = replace(
        frame, state=_alone(frame.state), names=names, parent=None, call_span=None, layers={}
    )
    frame.state.abstract.deferred.append(DeferredNumber(node, inner, parameter))


def _alone(state: ElaborationState) -> ElaborationState:
    """An elaboration that numbers can be evaluated in, and that holds nothing of another."""
    return ElaborationState(
        state.elaborator,
        Builder(state.build.facts),
        Context(state.context.training),
        abstract=Abstraction(state.abstract.symbols),
    )


def _at(value: ElabValue, sizes: Mapping[str, Size]) -> ElabValue:
    match value:
        case Dim():
            return substitute(value, sizes)
        case Axes():
            return Axes(substitute(each, sizes) for each in value)
        case _:
            return value
