"""An `if` whose condition changes from iteration to iteration of a loop that one proof covers.

An iteration takes one branch or the other. Both are elaborated, one with the condition as a fact,
the other with its opposite. If they leave every name with the same type, so does the iteration. The
value of such a name is unknown after it.
"""

from collections.abc import Callable, Mapping

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.statements.induction import (
    UnstableError,
    any_like,
    require_same,
)
from meganeura_dsl.elaborate.scope.body import Body
from meganeura_dsl.elaborate.scope.savepoint import Savepoint
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import ByIterationError
from meganeura_dsl.elaborate.values import ElabValue, NamedTensors, is_tensor
from meganeura_dsl.symbolic.assumptions import negate
from meganeura_dsl.syntax import ast


def binds_only(statement: ast.If) -> bool:
    """True if the sides of an `if` do nothing but bind names: they return nothing."""
    return all(
        isinstance(each, ast.Bind) or (isinstance(each, ast.If) and binds_only(each))
        for each in (*statement.then, *statement.otherwise)
    )


def on_both_sides(
    error: ByIterationError,
    frame: Frame,
    then: Callable[[], object],
    otherwise: Callable[[], object],
) -> None:
    """Leave names as they are whichever side is run.

    Raises `error` where a side fails or declares something, or a name has two types.
    """
    state, saved = frame.state, Savepoint.of(frame)
    if state.scans:
        raise error
    left: list[Mapping[str, ElabValue]] = []
    for side, fact in ((then, error.condition), (otherwise, negate(error.condition))):
        frame.build.facts = frame.facts.assume(fact)
        try:
            side()
        except ProblemError:
            raise error from None
        if not _declares_nothing(saved, frame):
            raise error
        left.append(frame.names)
        bindings, notes = (
            state.body.bindings[len(saved.body.bindings) :],
            state.body.notes[len(saved.body.notes) :],
        )
        saved.undo_attempt(frame)
        state.body.bindings += bindings
        state.body.notes += notes
    first, other = left
    if first.keys() != other.keys():
        raise error
    try:
        frame.names = {name: _joined(frame, name, first[name], other[name]) for name in first}
    except UnstableError:
        raise error from None


def _joined(frame: Frame, name: str, first: ElabValue, other: ElabValue) -> ElabValue:
    """Returns the common knowledge of the two values that a name may have."""
    require_same(frame, name, first, other)
    if first is other or not (is_tensor(first) or isinstance(first, NamedTensors)):
        return first
    return any_like(frame, first)


def _declares_nothing(saved: Savepoint, frame: Frame) -> bool:
    """True if no weight, layer or state is new or changed."""
    before, now = saved.body, frame.state.body
    return (
        _known(before) == _known(now)
        and before.updates.keys() == now.updates.keys()
        and all(value is now.updates[name] for name, value in before.updates.items())
        and saved.layers == frame.layers
        and saved.own == frame.own
    )


def _known(body: Body) -> tuple[object, ...]:
    return (
        body.parameters.keys(), body.claimed.keys(), body.models.keys(),
        body.declared_layers.keys(), body.unapplied_layers,
    )  # fmt: skip
