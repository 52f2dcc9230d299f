"""From a forward graph with a loss to the graph of one training step.

Gradients, clipping and the optimizer's update are ops like all others, so that the whole step is
optimized, planned and run as one graph. The moments are parameters of kind `state`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from math import log
from typing import assert_never

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op, Value, continued
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Constant,
    Div,
    Exp,
    Input,
    Minimum,
    Mul,
    Parameter,
    Sqrt,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.support.phases import phase
from meganeura_dsl.transforms.autodiff import gradients
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.egraph.rewrite_report import RewriteReport

LOSS = "loss"
LEARNING_RATE = "learning_rate"
STATES = "optimizer."
STEP = f"{STATES}step"
SCALAR = TensorType(DType.F32, ())


class TrainingError(Exception):
    """A training step that cannot be made of this graph with these settings."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent as `torch.optim.SGD`, without dampening.

    b' = momentum b + g,  p' = p - lr b',  or with Nesterov  p' = p - lr (g + momentum b')
    """

    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) as `torch.optim.Adam`; weight decay is added to the gradient.

    m' = m + (1 - beta1) (g - m),  v' = beta2 v + (1 - beta2) g**2
    p' = p - lr / (1 - beta1**t) m' / (sqrt(v') / sqrt(1 - beta2**t) + eps)
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) as `torch.optim.AdamW`.

    p shrinks by the factor 1 - lr weight_decay before the update of `Adam`.
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01


Optimizer = Sgd | Adam | AdamW


@dataclass(frozen=True)
class TrainingSettings:
    """How a step moves the parameters.

    `feed_learning_rate` makes the rate a scalar input `learning_rate`, for schedules; the
    optimizer's own `lr` is then not read. `multipliers` scales the rate of parameters whose names
    match a pattern such as `head.*`; the last match counts, and 0 leaves a parameter as it is.
    """

    optimizer: Optimizer
    clip_norm: float | None = None
    feed_learning_rate: bool = False
    multipliers: Mapping[str, float] | None = None


def training_step(forward: Graph, settings: TrainingSettings) -> Graph:
    """One step: the forward graph's outputs, and the next parameters, moments and states.

    A parameter that no gradient flows to stays as it is, weight decay or not, as in `torch.optim`.
    """
    if LOSS not in forward.outputs:
        raise TrainingError(f"the graph has no output `{LOSS}`")
    _require_free_names(forward)
    build, graph = continued(forward)
    parameters = {op.name: value for value in graph.values if (op := trained(value)) is not None}
    rates = _multipliers(settings.multipliers or {}, parameters)
    found = gradients(build, graph.outputs[LOSS], tuple(parameters.values()))
    moved = {name: each for name, each in zip(parameters, found, strict=True) if each is not None}
    clipped = _clipped(build, tuple(moved.values()), settings.clip_norm)
    rule = _Rule(build, settings)
    for name, gradient in zip(moved, clipped, strict=True):
        parameter = parameters[name]
        with build.at(parameter.origin):
            rule.update(name, parameter, gradient, rates[name])
    return build.graph(graph.outputs, {**graph.updates, **rule.updates})


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


def _multipliers(
    multipliers: Mapping[str, float], parameters: Mapping[str, Value]
) -> dict[str, float]:
    rates = dict.fromkeys(parameters, 1.0)
    for pattern, rate in multipliers.items():
        matching = [name for name in parameters if fnmatchcase(name, pattern)]
        if not matching:
            raise TrainingError(f"no parameter matches `{pattern}`")
        rates.update(dict.fromkeys(matching, rate))
    return rates


def _clipped(build: Builder, found: tuple[Value, ...], limit: float | None) -> tuple[Value, ...]:
    """As `torch.nn.utils.clip_grad_norm_`: g min(1, limit / (norm + 1e-6)), one norm for all."""
    if limit is None or not found:
        return found
    squares = [_squared_norm(build, _as_f32(build, gradient)) for gradient in found]
    norm = build.add(Sqrt(), reduce(lambda a, b: build.add(Add(), a, b), squares))
    ratio = build.add(Div(), _number(build, limit), build.add(Add(), norm, _number(build, 1e-6)))
    factor = build.add(Minimum(), ratio, _number(build, 1.0))
    return tuple(_scaled(build, factor, _as_f32(build, gradient)) for gradient in found)


def _squared_norm(build: Builder, x: Value) -> Value:
    return build.add(Sum(tuple(range(x.type.rank))), build.add(Mul(), x, x))


class _Rule:
    """The optimizer's rule applied to one parameter after the other; gathers the updates."""

    def __init__(self, build: Builder, settings: TrainingSettings) -> None:
        self.build = build
        self.optimizer = settings.optimizer
        self.updates: dict[str, Value] = {}
        if settings.feed_learning_rate:
            self.rate = build.add(Input(LEARNING_RATE, DType.F32, ()))
        else:
            self.rate = _number(build, settings.optimizer.lr)

    def update(self, name: str, parameter: Value, gradient: Value, multiplier: float) -> None:
        """Add the next value of a parameter and of its moments."""
        p, g = _as_f32(self.build, parameter), _as_f32(self.build, gradient)
        rate = self.rate
        if multiplier != 1:
            rate = self._do(Mul(), rate, _number(self.build, multiplier))
        match self.optimizer:
            case Sgd() as sgd:
                new = self._sgd(sgd, name, p, g, rate)
            case Adam() as adam:
                new = self._adam(adam, name, p, self._decayed(p, g), rate)
            case AdamW() as adam:
                keep = self._do(Mul(), rate, _number(self.build, adam.weight_decay))
                kept = self._do(Sub(), _number(self.build, 1.0), keep)
                new = self._adam(adam, name, _scaled(self.build, kept, p), g, rate)
            case _:
                assert_never(self.optimizer)
        dtype = parameter.type.dtype
        self.updates[name] = new if dtype is DType.F32 else self._do(Cast(dtype), new)

    def _sgd(self, sgd: Sgd, name: str, p: Value, g: Value, rate: Value) -> Value:
        direction = self._decayed(p, g)
        if sgd.momentum:
            decayed = direction
            old = self._state(name, "momentum", p.type)
            direction = self._do(Add(), self._times(sgd.momentum, old), decayed)
            self._keep(old, direction)
            if sgd.nesterov:
                direction = self._do(Add(), decayed, self._times(sgd.momentum, direction))
        return self._do(Sub(), p, _scaled(self.build, rate, direction))

    def _adam(self, adam: Adam | AdamW, name: str, p: Value, g: Value, rate: Value) -> Value:
        old, old_square = (self._state(name, each, p.type) for each in ("exp_avg", "exp_avg_sq"))
        mean = self._do(Add(), old, self._times(1 - adam.beta1, self._do(Sub(), g, old)))
        fresh = self._times(1 - adam.beta2, self._do(Mul(), g, g))
        square = self._do(Add(), self._times(adam.beta2, old_square), fresh)
        self._keep(old, mean)
        self._keep(old_square, square)
        length = self._do(Div(), rate, self._correction(adam.beta1))
        scale = self._do(Sqrt(), self._correction(adam.beta2))
        root = self._do(Div(), self._do(Sqrt(), square), _spread(self.build, scale, p.type))
        denominator = self._do(Add(), root, full(self.build, p.type, adam.eps))
        ratio = self._do(Div(), mean, denominator)
        return self._do(Sub(), p, _scaled(self.build, length, ratio))

    def _correction(self, beta: float) -> Value:
        """1 - beta**t, for the t-th step."""
        old = self.build.add(Parameter(STEP, DType.I32, (), "state"))
        step = self._do(Add(), old, self.build.add(Constant(1, DType.I32)))
        self._keep(old, step)
        if beta == 0:
            return _number(self.build, 1.0)
        exponent = self._times(log(beta), self._do(Cast(DType.F32), step))
        return self._do(Sub(), _number(self.build, 1.0), self._do(Exp(), exponent))

    def _decayed(self, p: Value, g: Value) -> Value:
        decay = self.optimizer.weight_decay
        return self._do(Add(), g, self._times(decay, p)) if decay else g

    def _state(self, name: str, moment: str, like: TensorType) -> Value:
        path = f"{STATES}{name}.{moment}"
        return self.build.add(Parameter(path, like.dtype, like.shape, "state"))

    def _keep(self, state: Value, new: Value) -> None:
        if isinstance(state.op, Parameter):
            self.updates[state.op.name] = new

    def _times(self, factor: float, x: Value) -> Value:
        return self._do(Mul(), full(self.build, x.type, factor), x)

    def _do(self, op: Op, *operands: Value) -> Value:
        return self.build.add(op, *operands)


def _number(build: Builder, value: float) -> Value:
    return full(build, SCALAR, value)


def _spread(build: Builder, scalar: Value, like: TensorType) -> Value:
    return build.add(Broadcast(like.shape, ()), scalar) if like.shape else scalar


def _scaled(build: Builder, factor: Value, x: Value) -> Value:
    return build.add(Mul(), _spread(build, factor, x.type), x)


def _as_f32(build: Builder, x: Value) -> Value:
    return x if x.type.dtype is DType.F32 else build.add(Cast(DType.F32), x)
