"""Numbers that depend on what symbols stand for: `d ** -0.5` where `d` is any of several numbers.

In an application in symbols such a number has no value. Where it scales a tensor or says how a
parameter begins, no type and no name depends on it, so its expression is evaluated later, in each
application that a symbol gets a number from: there it is a number, or has none, as `1 / (c - 8)`.
"""

from collections.abc import Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.builtins.initial_values import as_initializer
from meganeura_dsl.elaborate.problems.parameter_problems import MissingInitial
from meganeura_dsl.elaborate.scope.postponed import Postponed
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.shape_patterns import Evaluate
from meganeura_dsl.elaborate.values import Axes, Evaluated
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.initializers import Initializer
from meganeura_dsl.symbolic.size import Dim, Size, substitute
from meganeura_dsl.syntax import ast


def with_sizes(
    postponed: Postponed[Frame], sizes: Mapping[str, Size], state: ElaborationState
) -> Postponed[Frame]:
    """The same where symbols are these sizes, in an elaboration that may have symbols too."""
    names = {name: _at(value, sizes) for name, value in postponed.frame.names.items()}
    return replace(postponed, frame=replace(postponed.frame, state=_alone(state), names=names))


def value_of(postponed: Postponed[Frame]) -> Evaluated:
    """The number. Raises `ProblemError`; and `UndecidableError` as long as there is none."""
    return postponed.evaluate(postponed.node, postponed.frame)


def initializer_of(postponed: Postponed[Frame]) -> Initializer:
    """What the parameter begins as. Raises what `value_of` raises."""
    found = as_initializer(value_of(postponed), postponed.frame)
    if found is None:
        node = postponed.node
        location = postponed.frame.location(node.span)
        raise ProblemError(MissingInitial(location, postponed.parameter, node.span.text))
    return found


def postpone(node: ast.Expression, frame: Frame, evaluate: Evaluate, parameter: str = "") -> None:
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
    frame.state.postponed.append(Postponed(node, inner, evaluate, parameter))


def _alone(state: ElaborationState) -> ElaborationState:
    """An elaboration that numbers can be evaluated in, and that holds nothing of another."""
    return ElaborationState(
        Builder(state.build.facts), state.training, generalized=state.generalized
    )


def _at(value: Evaluated, sizes: Mapping[str, Size]) -> Evaluated:
    match value:
        case Dim():
            return substitute(value, sizes)
        case Axes():
            return Axes(substitute(each, sizes) for each in value)
        case _:
            return value
