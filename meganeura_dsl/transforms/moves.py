"""The moves of a training step: gradients, clipping, and the optimizer's update of parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.objectives import objectives
from meganeura_dsl.ir.ops import Cast, Input, Mul, Parameter, Reshape, Slice
from meganeura_dsl.ir.outputs import Gradient, Objective
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.ir.types import DType
from meganeura_dsl.plugins.plugin_groups import blamed
from meganeura_dsl.transforms.forward_copy import ForwardCopy
from meganeura_dsl.transforms.gradient_clipping import clipped_by_norm, clipped_by_value
from meganeura_dsl.transforms.joined_gradients import Differentiate, JoinedGradients
from meganeura_dsl.transforms.optimizers.optimizers import Optimizer
from meganeura_dsl.transforms.optimizers.update import STEP, Update, as_f32, number
from meganeura_dsl.transforms.repeated_moves import RepeatedMoves, losses_of
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_settings import TrainingError, TrainingSettings
from meganeura_dsl.transforms.update_gate import Gate

LOSS = "loss"


@dataclass(frozen=True, eq=False)
class Move:
    """The state that counts the moves of a parameter, and the verdict of its gate."""

    counter: str
    finite: Value | None


@dataclass(frozen=True, eq=False)
class StepInProgress:
    """A training step so far."""

    settings: TrainingSettings
    forward: Graph
    copy: ForwardCopy
    gate: Gate
    differentiate: Differentiate
    updates: dict[str, Value] = field(default_factory=dict[str, Value])
    """The next values of parameters and of the optimizer's states, by name."""
    slopes: dict[str, Value] = field(default_factory=dict[str, Value])
    """The gradient of each parameter that moves."""
    moves: "dict[str, Move]" = field(default_factory=dict[str, Move])

    def counter_of(self, objective: Objective) -> str:
        """The state that counts the moves of an objective.

        What may be left out by itself, or moves several times in a step, counts its own.
        """
        players = objectives(self.forward)
        apart = self.settings.skips or any(losses_of(self.forward, each) for each in players)
        return f"{STEP}.{objective.number}" if apart and objective.number > 0 else STEP


def gate_of(build: Builder, settings: TrainingSettings, accumulate: int) -> Gate:
    """The gate of moves by gradients of so many batches."""
    bounds = settings.clip_norm is not None or settings.clip_value is not None
    return Gate(build, accumulate, settings.part, skips=settings.skips, bounds=bounds)


def minimize(objective: Objective, step: StepInProgress) -> None:
    """Move the parameters of an objective once, and copy what follows."""
    copy, settings, forward, gate = step.copy, step.settings, step.forward, step.gate
    loss = forward.outputs.get(objective, forward.outputs[LOSS])
    parameters = {
        name: copy.leaves[name]
        for name in objective.moves
        if settings.optimizer_of(name) is not None
    }
    joined = JoinedGradients.of(
        forward, copy.of(loss), copy.of, copy.leaves, copy.build, step.differentiate
    )
    minimized = copy.of(loss) if joined is None else joined
    of_batch, means = _gradients(
        copy.build, minimized, parameters, gate, settings.part, step.updates, step.differentiate
    )
    counter = step.counter_of(objective)
    step.slopes.update(of_batch)
    step.moves.update(dict.fromkeys(of_batch, Move(counter, gate.verdict)))
    _move(copy.build, means, parameters, settings, gate, counter, step.updates)
    copy.go_on(objective, step.updates)


def repeat(losses: Value, step: StepInProgress) -> list[str]:
    """Move the parameters of a `repeat` at each of its iterations; the names of all of them.

    `losses` is the result of its loop that is the losses of one objective.
    """
    copy, settings, forward = step.copy, step.settings, step.forward
    gate = gate_of(copy.build, settings, 1)
    iteration = RepeatedMoves(copy, losses, gate)
    shows = settings.gradients or settings.gradient_norm
    moved: dict[str, str] = {}
    for objective in objectives(forward):
        each = losses_of(forward, objective)
        if each is None or each.application != losses.application:
            continue
        parameters = {
            name: iteration.found[name]
            for name in objective.moves
            if name in iteration.found and settings.optimizer_of(name) is not None
        }
        next_: dict[str, Value] = {}
        found, means = _gradients(
            copy.build, iteration.loss(each), parameters, gate, settings.part, next_,
            step.differentiate,
        )  # fmt: skip
        counter = step.counter_of(objective)
        moved |= dict.fromkeys(found, counter)
        _move(copy.build, means, parameters, settings, gate, counter, next_)
        iteration.go_on(objective, next_, found if shows else {})
    after = iteration.close()
    step.updates.update(after.states)
    step.slopes.update(after.slopes)
    if after.finite is not None:
        step.gate.take(after.finite)
    step.moves.update((name, Move(counter, after.finite)) for name, counter in moved.items())
    return list(iteration.found)


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


def _require_type(new: object, p: Value) -> None:
    """Raise `TypeError` where the next value of a parameter is none."""
    if not isinstance(new, Value) or new.type != p.type:
        found = new.type if isinstance(new, Value) else type(new).__name__
        raise TypeError(f"`update` returned {found}, and the parameter is {p.type}")


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


def trained(value: Value) -> Parameter | None:
    """The parameter a value is, if training moves it."""
    op = value.op
    return op if isinstance(op, Parameter) and op.kind == "param" else None
