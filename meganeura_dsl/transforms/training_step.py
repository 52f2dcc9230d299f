"""Builds the graph of one training step from a forward graph with a loss.

Gradients, clipping and the optimizer's update are ops like all others, so that the whole step is
optimized, planned and run as one graph. The moments are parameters of kind `state`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value, reachable
from meganeura_dsl.ir.objectives import Moved, objectives
from meganeura_dsl.ir.ops import Add, Input, Sub, Where
from meganeura_dsl.ir.outputs import Gradient, Objective
from meganeura_dsl.ir.reserved_names import LEARNING_RATE, STATES
from meganeura_dsl.support.phases import phase
from meganeura_dsl.transforms.autodiff import gradients
from meganeura_dsl.transforms.checkpoint_loops import checkpoint_loops
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.forward_copy import ForwardCopy
from meganeura_dsl.transforms.gradient_clipping import gradient_norm
from meganeura_dsl.transforms.joined_gradients import next_sum
from meganeura_dsl.transforms.joined_loss import EARLIER
from meganeura_dsl.transforms.loss_scale import LossScale
from meganeura_dsl.transforms.moves import (
    LOSS,
    Move,
    StepInProgress,
    gate_of,
    minimize,
    repeat,
    trained,
)
from meganeura_dsl.transforms.optimizers.update import (
    AVERAGE,
    Update,
    as_f32,
    average_of,
    number,
)
from meganeura_dsl.transforms.repeated_moves import losses_of
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_settings import TrainingError, TrainingSettings
from meganeura_dsl.transforms.update_gate import Gate

SKIPPED = "update.skipped"
"""The output that is 1 where a gradient is not finite, and 0 elsewhere."""
GRADIENT_NORM = "gradient_norm"
"""The output that measures the norm of all gradients together."""
LOSS_SCALE = "update.loss_scale"
"""The output that is the scale by which the loss of this step is multiplied."""
BESIDE_METRICS = frozenset({LOSS, SKIPPED, LOSS_SCALE})
"""Outputs of a step that are no metrics."""

if TYPE_CHECKING:
    from meganeura_dsl.transforms.egraph.optimized import Optimized


def training_step(forward: Graph, settings: TrainingSettings) -> Graph:
    """One step: the forward graph's outputs, and the next parameters, moments and states.

    Objectives are minimized in their order. The gradient of each is with respect to what it moves
    alone, and what follows it reads the new values, as constants. A parameter that no gradient
    flows to stays as it is, weight decay or not, as in `torch.optim`.

    Every part of a step declares the same parameters and states. Those that move nothing have no
    input `learning_rate`, and `UPDATE` has the gradients as inputs, `gradient.PATH`, and nothing of
    the forward graph. An update cannot be parted from its gradients where something that follows
    it, such as `project`, reads what it moved.
    """
    if LOSS not in forward.outputs:
        raise TrainingError(f"the graph has no output `{LOSS}`")
    _require_free_names(forward, settings)
    _require_matches(forward, settings)
    _require_parts(forward, settings)
    _require_once(forward, settings)
    forward = _checkpointed(forward, settings.recompute_above)
    copy = ForwardCopy(forward)
    scale = LossScale(copy.build) if settings.scale_loss else None
    step = StepInProgress(
        settings,
        forward,
        copy,
        gate_of(copy.build, settings, settings.accumulate),
        partial(gradients, copy.build) if scale is None else scale.gradients,
    )
    gate, updates, slopes, moves = step.gate, step.updates, step.slopes, step.moves
    again: list[str] = []
    for objective in objectives(forward) or (Objective(0, tuple(_trained(forward))),):
        losses = losses_of(forward, objective)
        if losses is None:
            minimize(objective, step)
        elif objective.moves[0] not in again:
            again += repeat(losses, step)
    outputs, states = copy.results(forward)
    updates |= {name: states.pop(name) for name in again if name in moves}
    names = [name for each in objectives(forward) for name in each.moves if name in states]
    _project(names, copy, moves, states, settings, gate, updates)
    _average(copy, moves, settings, gate, updates)
    sums = [name for name in states if name.startswith(EARLIER)]
    for name in sums:
        updates[name] = next_sum(copy.build, states.pop(name), moves=settings.part.moves)
    shows = settings.gradients or settings.part is StepPart.GRADIENTS
    shown: dict[str, Value] = {Gradient(name): each for name, each in slopes.items() if shows}
    if settings.gradient_norm:
        shown[GRADIENT_NORM] = gradient_norm(copy.build, tuple(slopes.values()))
    if settings.skips:
        finite = gate.is_finite()
        states = gate.states(finite, states, copy.leaves)
        shown |= _verdict(copy.build, finite, scale if settings.part.moves else None, updates)
    if settings.part is StepPart.UPDATE:
        return _fed_gradients_alone(copy.build.graph(shown, updates))
    return simplify_loops(copy.build.graph({**outputs, **shown}, {**states, **updates}))


def _verdict(
    build: Builder, finite: Value, scale: LossScale | None, updates: dict[str, Value]
) -> dict[str, Value]:
    """The outputs about the update of a step that may be left out; the next scale is stored."""
    shown = {SKIPPED: build.add(Where(), finite, number(build, 0.0), number(build, 1.0))}
    if scale is not None:
        shown[LOSS_SCALE] = scale.value
        scale.store_next(finite, updates)
    return shown


def _checkpointed(forward: Graph, above: int | None) -> Graph:
    """The graph where scans that gradients go through run in segments, if they store too much."""
    if above is None:
        return forward
    behind = {value.id for value in forward.values if trained(value) is not None}
    for value in forward.values:
        if any(each.id in behind for each in value.operands):
            behind.add(value.id)
    before = reachable([forward.outputs[LOSS]])  # that of several objectives is their sum
    again = {
        value.id
        for value in forward.values
        for each in objectives(forward)
        if (losses := losses_of(forward, each)) and value.application == losses.application
    }
    return checkpoint_loops(forward, above, (behind & before) - again)


def _fed_gradients_alone(graph: Graph) -> Graph:
    """An update without the inputs of the forward graph, which nothing of it reads."""
    values = tuple(
        value
        for value in graph.values
        if not isinstance(value.op, Input)
        or isinstance(value.op.name, Gradient)
        or value.op.name == LEARNING_RATE
    )
    return Graph(values, graph.outputs, graph.updates)


def _project(
    names: Iterable[str],
    copy: ForwardCopy,
    moves: Mapping[str, Move],
    states: dict[str, Value],
    settings: TrainingSettings,
    gate: Gate,
    updates: dict[str, Value],
) -> None:
    """Moves what `project` makes of these parameters, where they moved, from states to updates."""
    for name in names:
        old, projected = copy.leaves[name], states.pop(name)
        if name not in updates:
            continue  # the settings freeze it, or this part of the step moves nothing
        update = Update(copy.build, name, {}, settings.interval_of(name), moves[name].counter)
        with copy.build.at(projected.origin):
            due = update.when_due(projected, old)
            updates[name] = gate.kept(moves[name].finite, due, old)


def _average(
    copy: ForwardCopy,
    moves: Mapping[str, Move],
    settings: TrainingSettings,
    gate: Gate,
    updates: dict[str, Value],
) -> None:
    """Lets the exponential moving averages of what moved follow it.

    Each part of a step declares them.
    """
    if settings.ema is None:
        return
    for name, move in moves.items():
        build, parameter = copy.build, copy.leaves[name]
        with build.at(parameter.origin):
            new = as_f32(build, updates.get(name, parameter))
            update = Update(build, name, {}, settings.interval_of(name), move.counter)
            average = update.state(AVERAGE, new.type)
            if name not in updates:
                continue
            way = update.times(1 - settings.ema, update.op(Sub(), new, average))
            followed = update.when_due(update.op(Add(), average, way), average)
            updates[average_of(name)] = gate.kept(move.finite, followed, average)


def _trained(graph: Graph) -> list[str]:
    """The names of the parameters that training may move."""
    return [op.name for value in graph.values if (op := trained(value)) is not None]


def _require_matches(graph: Graph, settings: TrainingSettings) -> None:
    names = _trained(graph)
    globs = (*(glob for glob, _ in (*settings.groups, *settings.every)), *settings.schedules)
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            raise TrainingError(f"no parameter matches `{glob}`")


def is_divisible(forward: Graph) -> bool:
    """True if the update of a step can be parted from its gradients.

    It cannot where something that follows an update reads what it moved.
    """
    read = [*forward.roots, *(each for value in forward.values for each in value.operands)]
    return not any(isinstance(value.op, Moved) for value in read)


def _require_parts(forward: Graph, settings: TrainingSettings) -> None:
    """Raise `TrainingError` for a step that cannot be divided so."""
    if settings.part not in (StepPart.GRADIENTS, StepPart.UPDATE):
        return
    if settings.accumulate > 1:
        raise TrainingError("gradients are either accumulated by the step or given to it")
    if not is_divisible(forward):
        raise TrainingError("what is computed after an update reads the weights that it moved")


def moved_again(forward: Graph) -> list[str]:
    """The names of the parameters that a `repeat` moves."""
    players = (each for each in objectives(forward) if losses_of(forward, each))
    return [name for each in players for name in each.moves]


def _require_once(forward: Graph, settings: TrainingSettings) -> None:
    """Raise `TrainingError` for settings that ask for fewer moves than a `repeat` makes."""
    again = moved_again(forward)
    if again and settings.accumulate > 1:
        raise TrainingError("`repeat` moves weights several times, each time by one batch alone")
    for glob, _ in settings.every:
        if any(fnmatchcase(name, glob) for name in again):
            raise TrainingError(f"`{glob}` moves in a `repeat`, at each of its iterations")


@dataclass(frozen=True, eq=False)
class OptimizedStep:
    """A training step rewritten to run faster, and what was done for it, phase after phase."""

    graph: Graph
    optimizations: "tuple[Optimized, ...]"


def optimized_training_step(
    forward: Graph, settings: TrainingSettings, rewriting: RewriteOptions
) -> OptimizedStep:
    """`training_step`, with the same leaves, outputs and updates, in fewer ops.

    The forward graph is fused first, as a fused op has one gradient; then the step as a whole.
    Raises `ProblemError` as `RewriteOptions.optimize` does.
    """
    if not rewriting.enabled:
        return OptimizedStep(training_step(forward, settings), ())
    with phase("optimize_forward"):
        fused = rewriting.optimize(forward, "forward")
    with phase("autodiff"):
        whole = training_step(fused.graph, settings)
    with phase("optimize_full"):
        step = rewriting.optimize(whole, "train")
    return OptimizedStep(step.graph, (fused, step))


def _require_free_names(forward: Graph, settings: TrainingSettings) -> None:
    if settings.gradient_norm and GRADIENT_NORM in forward.outputs:
        raise TrainingError(f"the graph has an output `{GRADIENT_NORM}` of its own")
    for value in forward.values:
        op = value.op
        if not isinstance(op, Leaf) or op.name.startswith(EARLIER):
            continue
        if op.name == LEARNING_RATE or op.name.startswith(STATES):
            raise TrainingError(f"`{op.name}` is a name the optimizer needs")
