"""From a forward graph with a loss to the graph of one training step.

Gradients, clipping and the optimizer's update are ops like all others, so that the whole step is
optimized, planned and run as one graph. The moments are parameters of kind `state`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Value, continued
from meganeura_dsl.ir.ops import (
    Add,
    Cast,
    Div,
    Input,
    Maximum,
    Minimum,
    Mul,
    Parameter,
    Sqrt,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.support.phases import phase
from meganeura_dsl.transforms.autodiff import gradients
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.egraph.rewrite_report import RewriteReport
from meganeura_dsl.transforms.optimizers.optimizers import Optimizer
from meganeura_dsl.transforms.optimizers.update import (
    STATES,
    Update,
    as_f32,
    number,
    scaled,
    squared_norm,
)
from meganeura_dsl.transforms.simplify_loops import simplify_loops

LOSS = "loss"
LEARNING_RATE = "learning_rate"
GRADIENT = "gradient."
"""How the names of outputs begin that are gradients."""
GRADIENT_NORM = "gradient_norm"
"""The output that measures the norm of all gradients together."""


class TrainingError(Exception):
    """A training step that cannot be made of this graph with these settings."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a step moves the parameters.

    `feed_learning_rate` makes the rate a scalar input `learning_rate`, for schedules; the
    optimizer's own `lr` is then not read. `groups` gives the parameters whose names match a glob
    such as `head.*` another optimizer, or none that moves them; the last match counts. A learning
    rate that is fed scales all rates by one factor. `gradients` makes the gradient of each
    parameter that is moved an output `gradient.PATH`, before they are clipped, and `gradient_norm`
    the norm of all of them an output of that name. `clip_value` bounds each element of a gradient
    before `clip_norm` bounds the norm of all.
    """

    optimizer: Optimizer
    clip_norm: float | None = None
    feed_learning_rate: bool = False
    groups: tuple[tuple[str, Optimizer | None], ...] = ()
    gradients: bool = False
    clip_value: float | None = None
    gradient_norm: bool = False

    def optimizer_of(self, name: str) -> Optimizer | None:
        """What moves a parameter, if anything does."""
        found = self.optimizer
        for glob, optimizer in self.groups:
            if fnmatchcase(name, glob):
                found = optimizer
        return found

    def demand(self, name: str, of: TensorType) -> str:
        """What the optimizer of a parameter needs of it that it has not; empty if it can move."""
        optimizer = self.optimizer_of(name)
        return "" if optimizer is None else optimizer.demand(of)


def training_step(forward: Graph, settings: TrainingSettings) -> Graph:
    """One step: the forward graph's outputs, and the next parameters, moments and states.

    A parameter that no gradient flows to stays as it is, weight decay or not, as in `torch.optim`.
    """
    if LOSS not in forward.outputs:
        raise TrainingError(f"the graph has no output `{LOSS}`")
    if settings.gradient_norm and GRADIENT_NORM in forward.outputs:
        raise TrainingError(f"the graph has an output `{GRADIENT_NORM}` of its own")
    _require_free_names(forward)
    build, graph = continued(forward)
    parameters = _moved(graph, settings)
    found = gradients(build, graph.outputs[LOSS], tuple(parameters.values()))
    moved = {name: each for name, each in zip(parameters, found, strict=True) if each is not None}
    shown = {f"{GRADIENT}{name}": each for name, each in moved.items() if settings.gradients}
    outputs = {**graph.outputs, **shown}
    if settings.gradient_norm:
        outputs[GRADIENT_NORM] = _norm(build, tuple(moved.values()))
    bounded = _bounded(build, tuple(moved.values()), settings.clip_value)
    clipped = _clipped(build, bounded, settings.clip_norm)
    updates: dict[str, Value] = {}
    for name, gradient in zip(moved, clipped, strict=True):
        parameter = parameters[name]
        with build.at(parameter.origin):
            update = Update(build, name, updates)
            p, g = as_f32(build, parameter), as_f32(build, gradient)
            optimizer = settings.optimizer_of(name)
            assert optimizer is not None
            new = optimizer.update(update, p, g, _learning_rate(build, optimizer, settings))
            dtype = parameter.type.dtype
            updates[name] = new if dtype is DType.F32 else update.op(Cast(dtype), new)
    return simplify_loops(build.graph(outputs, {**graph.updates, **updates}))


def _moved(graph: Graph, settings: TrainingSettings) -> dict[str, Value]:
    """The parameters that some optimizer moves, by name."""
    leaves = {op.name: value for value in graph.values if (op := trained(value)) is not None}
    for glob, _ in settings.groups:
        if not any(fnmatchcase(name, glob) for name in leaves):
            raise TrainingError(f"no parameter matches `{glob}`")
    found = {
        name: value for name, value in leaves.items() if settings.optimizer_of(name) is not None
    }
    for name, value in found.items():
        if demand := settings.demand(name, value.type):
            raise TrainingError(f"`{name}` is {value.type}, but its optimizer moves {demand}")
    return found


def _learning_rate(build: Builder, optimizer: Optimizer, settings: TrainingSettings) -> Value:
    """The learning rate of a step, an f32 scalar: an input, or the optimizer's own."""
    if not settings.feed_learning_rate:
        return number(build, optimizer.lr)
    fed = build.add(Input(LEARNING_RATE, DType.F32, ()))
    ratio = optimizer.lr / settings.optimizer.lr
    return fed if ratio == 1 else build.add(Mul(), fed, number(build, ratio))


@dataclass(frozen=True, eq=False)
class OptimizedStep:
    """A training step rewritten to run faster, and what was done for it, phase after phase."""

    graph: Graph
    reports: tuple[RewriteReport, ...]


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
    return OptimizedStep(step.graph, (fused.report, step.report))


def _require_free_names(forward: Graph) -> None:
    for value in forward.values:
        op = value.op
        if isinstance(op, Leaf) and (op.name == LEARNING_RATE or op.name.startswith(STATES)):
            raise TrainingError(f"`{op.name}` is a name the optimizer needs")


def trained(value: Value) -> Parameter | None:
    """The parameter a value is, if training moves it."""
    op = value.op
    return op if isinstance(op, Parameter) and op.kind == "param" else None


def _bounded(build: Builder, found: tuple[Value, ...], limit: float | None) -> tuple[Value, ...]:
    """As `torch.nn.utils.clip_grad_value_`: each element at least -limit and at most limit."""
    if limit is None:
        return found
    return tuple(
        build.add(Maximum(), build.add(Minimum(), g, full(build, g.type, limit)), below)
        for g in (as_f32(build, each) for each in found)
        for below in (full(build, g.type, -limit),)
    )


def _clipped(build: Builder, found: tuple[Value, ...], limit: float | None) -> tuple[Value, ...]:
    """As `torch.nn.utils.clip_grad_norm_`: g min(1, limit / (norm + 1e-6)), one norm for all."""
    if limit is None or not found:
        return found
    norm = build.add(Add(), _norm(build, found), number(build, 1e-6))
    ratio = build.add(Div(), number(build, limit), norm)
    factor = build.add(Minimum(), ratio, number(build, 1.0))
    return tuple(scaled(build, factor, as_f32(build, gradient)) for gradient in found)


def _norm(build: Builder, found: tuple[Value, ...]) -> Value:
    """The square root of the sum of all squares, a scalar; 0 of nothing."""
    squares = [squared_norm(build, as_f32(build, gradient)) for gradient in found]
    if not squares:
        return number(build, 0.0)
    return build.add(Sqrt(), reduce(lambda a, b: build.add(Add(), a, b), squares))
