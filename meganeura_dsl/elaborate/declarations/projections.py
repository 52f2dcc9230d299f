"""`project`: the weights of a layer after the objective that moves them.

Clipped weights (Arjovsky et al. 2017), bounded norms and normalized rows are made so. Each tensor
is taken by itself, as in the update of a layer that follows another.
"""

from collections.abc import Mapping

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.layers.layer_copies import (
    evaluated_with,
    is_layer,
    layers_named,
    pairs,
    source_path,
)
from meganeura_dsl.elaborate.problems.objective_problems import NotMoved
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import require_fit
from meganeura_dsl.ir import ops
from meganeura_dsl.syntax import ast


def project(statement: ast.Project, path: str, names: frozenset[str], frame: Frame) -> None:
    """Gives these parameters, which are those below the path, their values after their move.

    In evaluation nothing moves. Raises `ProblemError` for a tensor that no objective above has
    moved, for a value of another shape, and for layers that differ in their weights.
    """
    state = frame.state
    if not state.context.training:
        return
    location = frame.location(statement.span)
    moved = [name for name in state.body.parameters if name in names and state.mover(name)]
    if not moved:
        raise ProblemError(NotMoved(location, path, ()))
    others = _others(statement, path, frame)
    for name in moved:
        info = state.body.parameters[name]
        stands_for = {path: name} | {each: rows[name] for each, rows in others.items()}
        value = evaluated_with(statement.span, statement.value, frame, stands_for)
        require_fit(frame, statement.value.span, f"project {name}", info.type, value)
        state.body.updates[name] = frame.add(statement.span, ops.StopGradient(), value)
        if name in frame.own:
            frame.names[name] = state.current(name)
    state.train.unprojected.update((name, location) for name in names - set(moved))


def _others(statement: ast.Project, path: str, frame: Frame) -> Mapping[str, Mapping[str, str]]:
    """For each other layer that the value names, its tensors by the names of those of this one."""
    found: dict[str, Mapping[str, str]] = {}
    location, known = frame.location(statement.span), frame.state.body.parameters
    for name, other in layers_named(statement.value, frame, but=path).items():
        is_named = is_layer(path, frame)
        one = source_path(statement.path, path, frame) if is_named else frame.join(path)
        found[name] = dict(pairs(one, other, known, location))
    return found
