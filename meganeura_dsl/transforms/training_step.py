"""Builds the graph of one training step from a forward graph with a loss.

Gradients, clipping and the optimizer's update are ops like all others, so that the whole step is
optimized, planned and run as one graph. The moments are parameters of kind `state`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value, reachable
from meganeura_dsl.ir.objectives import Moved, objectives
from meganeura_dsl.ir.ops import (
    Add,
    Cast,
    Input,
    Mul,
    Parameter,
    Reshape,
    Slice,
    Sub,
    Where,
)
from meganeura_dsl.ir.outputs import Gradient, Objective
from meganeura_dsl.ir.reserved_names import LEARNING_RATE, STATES
from meganeura_dsl.ir.types import DType
from meganeura_dsl.plugins.plugin_groups import blamed, plugin_behind
from meganeura_dsl.support.phases import phase
from meganeura_dsl.transforms.autodiff import gradients
from meganeura_dsl.transforms.checkpoint_loops import checkpoint_loops
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.forward_copy import ForwardCopy
from meganeura_dsl.transforms.gradient_clipping import (
    clipped_by_norm,
    clipped_by_value,
    gradient_norm,
)
from meganeura_dsl.transforms.joined_gradients import Differentiate, JoinedGradients, next_sum
from meganeura_dsl.transforms.joined_loss import EARLIER
from meganeura_dsl.transforms.loss_scale import LossScale
from meganeura_dsl.transforms.optimizers.optimizers import Optimizer
from meganeura_dsl.transforms.optimizers.update import (
    AVERAGE,
    STEP,
    Update,
    as_f32,
    average_of,
    number,
)
from meganeura_dsl.transforms.simplify_loops import simplify_loops
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.update_gate import Gate

LOSS = "loss"
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


class TrainingError(Exception):
    """A training step that cannot be made of this graph with these settings."""


@dataclass(frozen=True)
class TrainingSettings:
    """The settings with which a step moves the parameters.

    `feed_learning_rate` makes the rate a scalar input `learning_rate`, for schedules; the
    optimizer's own `lr` is then not read. `groups` gives the parameters whose names match a glob
    such as `head.*` another optimizer, or none that moves them; the last match counts. A learning
    rate that is fed scales all rates by one factor. `gradients` makes the gradient of each
    parameter that is moved an output `gradient.PATH`, before they are clipped, and `gradient_norm`
    the norm of all of them an output of that name. `clip_value` bounds each element of a gradient
    before `clip_norm` bounds the norm of all. The parameters that match a glob of
    `every` move at each so many updates only; the last match counts. With `schedules` the rate that
    is fed is a vector: the rate of all, and for each of these globs that of the parameters that
    match it, of which the last counts.

    `accumulate` moves the parameters after so many batches, by the mean of their gradients: all of
    them but the last are steps of the `part` `SUM`. `ema` keeps an average of each parameter:
    a' = a + (1 - ema) (p' - a). `skip_not_finite` leaves all as it was where a gradient is not
    finite, and adds the output `update.skipped`. `scale_loss` does so too: gradients are computed
    of the loss times a scale that fits them, an output of the steps that move parameters. `part` is
    how much of the step is made.

    A scan that would store more bytes than `recompute_above` for its gradient stores the carries of
    some iterations, and runs the others once more.
    """

    optimizer: Optimizer
    _: KW_ONLY
    clip_norm: float | None = None
    feed_learning_rate: bool = False
    groups: tuple[tuple[str, Optimizer | None], ...] = ()
    gradients: bool = False
    every: tuple[tuple[str, int], ...] = ()
    clip_value: float | None = None
    gradient_norm: bool = False
    accumulate: int = 1
    ema: float | None = None
    skip_not_finite: bool = False
    scale_loss: bool = False
    part: StepPart = StepPart.WHOLE
    recompute_above: int | None = None
    schedules: tuple[str, ...] = ()

    def interval_of(self, name: str) -> int:
        """The steps from one move of a parameter to the next."""
        matching = [steps for glob, steps in self.every if fnmatchcase(name, glob)]
        return matching[-1] if matching else 1

    def rate_of(self, name: str) -> int:
        """Returns the number of a parameter's learning rate among those that are fed."""
        matching = [at for at, glob in enumerate(self.schedules) if fnmatchcase(name, glob)]
        return matching[-1] + 1 if matching else 0

    @property
    def skips(self) -> bool:
        """True if gradients that are not finite leave all as it was."""
        return self.skip_not_finite or self.scale_loss

    @property
    def has_plugins(self) -> bool:
        """True if code of another package moves parameters, which no cache can know."""
        moving = (self.optimizer, *(each for _, each in self.groups))
        return any(plugin_behind(each) is not None for each in moving)

    def optimizer_of(self, name: str) -> Optimizer | None:
        """Returns the optimizer that moves a parameter, if any."""
        found = self.optimizer
        for glob, optimizer in self.groups:
            if fnmatchcase(name, glob):
                found = optimizer
        return found


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
    forward = _checkpointed(forward, settings.recompute_above)
    copy = ForwardCopy(forward)
    gate = Gate(
        copy.build,
        settings.accumulate,
        settings.part,
        skips=settings.skips,
        bounds=settings.clip_norm is not None or settings.clip_value is not None,
    )
    scale = LossScale(copy.build) if settings.scale_loss else None
    updates: dict[str, Value] = {}
    slopes: dict[str, Value] = {}
    moves: dict[str, _Move] = {}
    for objective in objectives(forward) or (Objective(0, tuple(_trained(forward))),):
        loss = forward.outputs.get(objective, forward.outputs[LOSS])
        parameters = {
            name: copy.leaves[name]
            for name in objective.moves
            if settings.optimizer_of(name) is not None
        }
        # What may be left out by itself counts its own steps.
        counts = settings.skips and objective.number > 0
        counter = f"{STEP}.{objective.number}" if counts else STEP
        differentiate = partial(gradients, copy.build) if scale is None else scale.gradients
        joined = JoinedGradients.of(
            forward, copy.of(loss), copy.of, copy.leaves, copy.build, differentiate
        )
        minimized = copy.of(loss) if joined is None else joined
        of_batch, means = _gradients(
            copy.build, minimized, parameters, gate, settings.part, updates, differentiate
        )
        slopes |= of_batch
        moves |= dict.fromkeys(of_batch, _Move(counter, gate.verdict))
        _move(copy.build, means, parameters, settings, gate, counter, updates)
        copy.go_on(objective, updates)
    outputs, states = copy.results(forward)
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
    return checkpoint_loops(forward, above, behind & before)


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


def _gradients(
    build: Builder,
    loss: Value | JoinedGradients,
    parameters: Mapping[str, Value],
    gate: Gate,
    part: StepPart,
    updates: dict[str, Value],
    differentiate: Differentiate,
) -> tuple[dict[str, Value], dict[str, Value]]:
    """The gradients of a batch, of the parameters that they reach, and those of an update.

    The next sums over the batches of an update are put into `updates`.
    """
    own = loss.own if isinstance(loss, JoinedGradients) else loss
    found = differentiate(own, tuple(parameters.values()))
    gradients_of_batch = {
        name: each for name, each in zip(parameters, found, strict=True) if each is not None
    }
    if part is StepPart.UPDATE:
        gradients_of_batch = {
            name: build.add(Input(Gradient(name), each.type.dtype, each.type.shape))
            for name, each in gradients_of_batch.items()
        }
    if not isinstance(loss, JoinedGradients):
        return gradients_of_batch, gate.mean(gradients_of_batch, updates)
    means = loss.means(parameters, part, updates)
    gate.decide(loss.decisive)
    return gradients_of_batch, means


def _move(
    build: Builder,
    means: Mapping[str, Value],
    parameters: Mapping[str, Value],
    settings: TrainingSettings,
    gate: Gate,
    counter: str,
    updates: dict[str, Value],
) -> None:
    """Put the next values of parameters, and of their optimizers' states, into `updates`."""
    bounded = clipped_by_value(build, tuple(means.values()), settings.clip_value)
    clipped = clipped_by_norm(build, bounded, settings.clip_norm)
    moved: dict[str, Value] = {}
    for name, gradient in zip(means, clipped, strict=True):
        parameter = parameters[name]
        with build.at(parameter.origin):
            update = Update(build, name, moved, settings.interval_of(name), counter)
            p, g = as_f32(build, parameter), as_f32(build, gradient)
            optimizer = settings.optimizer_of(name)
            assert optimizer is not None
            rate = _learning_rate(build, name, optimizer, settings)
            action = f"while it builds the update of `{name}`"
            with blamed(optimizer, action, passing=TrainingError):
                if demand := optimizer.demand(p.type):
                    raise TrainingError(f"`{name}` is {p.type}, but its optimizer moves {demand}")
                new = optimizer.update(update, p, g, rate)
                _require_type(new, p)
            dtype = parameter.type.dtype
            stored = new if dtype is DType.F32 else update.op(Cast(dtype), new)
            moved[name] = update.when_due(stored, parameter)
    updates |= gate.admitted(moved, parameters)


@dataclass(frozen=True, eq=False)
class _Move:
    """The state that counts the moves of a parameter, and the verdict of its gate."""

    counter: str
    finite: Value | None


def _project(
    names: Iterable[str],
    copy: ForwardCopy,
    moves: Mapping[str, _Move],
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
    moves: Mapping[str, _Move],
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


def _require_type(new: object, p: Value) -> None:
    """Raise `TypeError` where the next value of a parameter is none."""
    if not isinstance(new, Value) or new.type != p.type:
        found = new.type if isinstance(new, Value) else type(new).__name__
        raise TypeError(f"`update` returned {found}, and the parameter is {p.type}")


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


def _learning_rate(
    build: Builder, name: str, optimizer: Optimizer, settings: TrainingSettings
) -> Value:
    """The learning rate of a parameter, an f32 scalar: of an input, or the optimizer's own."""
    if not settings.feed_learning_rate or not settings.part.moves:
        return number(build, optimizer.lr)
    count, at = 1 + len(settings.schedules), settings.rate_of(name)
    if count == 1:
        fed = build.add(Input(LEARNING_RATE, DType.F32, ()))
    else:
        rates = build.add(Input(LEARNING_RATE, DType.F32, (count,)))
        fed = build.add(Reshape(()), build.add(Slice((at,), (at + 1,), (1,)), rates))
    ratio = optimizer.lr / settings.optimizer.lr
    return fed if ratio == 1 else build.add(Mul(), fed, number(build, ratio))


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


def trained(value: Value) -> Parameter | None:
    """The parameter a value is, if training moves it."""
    op = value.op
    return op if isinstance(op, Parameter) and op.kind == "param" else None
