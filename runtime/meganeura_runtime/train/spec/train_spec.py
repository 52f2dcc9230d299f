"""What a `train` block trains, whatever feeds it: settings, step graphs and what they keep."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Problem, ProblemError, ProblemsError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.declarations.training_blocks import setting_key
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds, with_checks
from meganeura_dsl.ir.initializers import sample
from meganeura_dsl.ir.objectives import Objective
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.parameter_groups import SCHEDULE, group_problems
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, whole
from meganeura_dsl.settings.settings_problems import MetricTaken, NothingToFollow
from meganeura_dsl.transforms import training_step as training
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.joined_loss import Joins, joins_of, with_joined_loss
from meganeura_dsl.transforms.optimizers.schedules import Reduction, RunLength
from meganeura_dsl.transforms.optimizers.update import average_of
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.backends.backend import OpenDevice, Spread
from meganeura_runtime.backends.compile_cache import cached_training_step
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import TooLittleMemory
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import DEVICE_NAMES, choose_device, model_of
from meganeura_runtime.io.data.dataset import Demand
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array
from meganeura_runtime.io.weight_names import AS_STORED, Names
from meganeura_runtime.io.weights import STRICT, Allowed, Comparison, compare
from meganeura_runtime.train.spec.joined_metrics import Joining
from meganeura_runtime.train.spec.session_inputs import NOT_DATA, leaves
from meganeura_runtime.train.spec.step_planning import StepPlanner, device_of_run
from meganeura_runtime.train.training_problems import IndivisibleBatch, NoLength, NoSuchMetric

DRAWERS = 4
"""Threads that draw initial values."""


@dataclass(frozen=True)
class Start:
    """Weights to start from, and how they may differ from the parameters."""

    files: tuple[Path, ...]
    allowed: Allowed = STRICT
    names: Names = AS_STORED

    def compared(self, parameters: Sequence[ParameterInfo]) -> Comparison:
        """The tensors of the files beside the parameters; raises `ProblemError` as `compare`."""
        return compare(self.files, parameters, self.allowed, self.names)


@dataclass(frozen=True)
class StepOptions:
    """What a step offers besides what the settings ask for."""

    steered: bool = False
    """Whether the learning rate of each step is fed, also where the schedule is constant."""
    gradients: bool = False
    """Whether the gradients are outputs."""
    tuned: bool = True
    """Whether its kernels are as they were tuned, which decides what it takes of `memory`."""


PLAIN = StepOptions()


@dataclass(frozen=True, eq=False)
class SizedStep:
    """A training step on a batch of one size, or a part of it."""

    examples: int
    make_step: Callable[[], Graph]
    optimized: Graph
    bounds: Mapping[str, Bound]
    """Of all inputs and parameters that are indices."""
    part: StepPart = StepPart.WHOLE

    @cached_property
    def step(self) -> Graph:
        """It, as the program says it."""
        return self.make_step()


@dataclass(frozen=True, eq=False)
class Signature:
    """What the batches of a `train` block are, and what of its graph depends on them."""

    symbolic: Elaboration
    demand: Demand

    @staticmethod
    def of(program: Program, train: str, settings: RunSettings) -> "Signature":
        """That of a `train` block; raises `ProblemError`."""
        symbolic = pipeline.elaborate_train(program, train, sizes={}, training=True)
        demand = Demand(
            _data_inputs(symbolic.inputs),
            settings.sizes,
            pipeline.whole_inputs(program, train),
            settings.tensors,
        )
        return Signature(symbolic, demand)

    @property
    def measured(self) -> tuple[str, ...]:
        """What an evaluation measures: the loss and the metrics."""
        return tuple(name for name in self.symbolic.graph.outputs if Objective.of(name) is None)

    def bounds(self, sizes: Mapping[str, int]) -> dict[str, Bound]:
        """Of inputs and parameters that are indices, how many things they pick from."""
        return all_of(leaf_bounds(self.symbolic.graph, sizes), self.symbolic.stated_bounds(sizes))


@dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """A `train` block with its settings: the steps it makes, and what they keep."""

    name: str
    settings: RunSettings
    demand: Demand
    parameters: tuple[ParameterInfo, ...]
    """What the program declares; optimizers add leaves of their own to `step`."""
    make_step: Callable[[], Graph]
    """What makes `step`, as a run from the cache hardly needs it."""
    evaluation: Callable[[Mapping[str, int]], Graph]
    """The graph that measures the loss and the metrics of a batch, for sizes other than those of
    the settings."""
    sized: Callable[[Mapping[str, int], StepPart], SizedStep]
    """The step or a part of it, for sizes that may be others than those of the settings.

    Raises `ProblemError`."""
    bounds_at: Callable[[Mapping[str, int]], Mapping[str, Bound]]
    """Of all inputs and parameters that are indices, for such sizes."""
    symbolic_evaluation: Callable[[], Graph] | None = None
    """That graph with sizes as symbols, if there is one; raises `ProblemError`."""
    start: Comparison | None = None
    """The weights to start from, which replace initial values."""
    given: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """What these weights are."""
    optimized: Graph | None = None
    """The same step, rewritten to run faster; `None` runs `step` as it is."""
    device: DeviceModel = DEFAULT_DEVICE
    """What it is rewritten for."""
    bounds: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """Of inputs and parameters that are indices and have to be checked when they are given."""
    preparation: Preparation = NOTHING
    """How files become its inputs, and the names of its classes by number."""
    joins: Joins = Joins.MEAN
    """How the loss of an update comes of those of its batches."""
    is_divisible: bool = True
    """Whether a step can be made in two parts, the gradients and the update."""

    @cached_property
    def joining(self) -> Joining | None:
        """How measurements of several batches are those of all; `None` where nothing counts."""
        counter = self.demand.counter
        if counter is None or self.symbolic_evaluation is None:
            return None
        sizes = {name: size for name, size in self.settings.sizes.items() if name != counter}
        try:
            return Joining(self.symbolic_evaluation(), counter, sizes)
        except ProblemError:  # such as one of a size that these numbers are not of
            return None

    @cached_property
    def step(self) -> Graph:
        """One training step as the program says it; its learning rate is an input."""
        return self.make_step()

    @property
    def compiled(self) -> Graph:
        """The graph that runs, with the leaves, outputs and updates of `step`, which it means."""
        return self.step if self.optimized is None else self.optimized

    def part_at(self, step: int) -> StepPart:
        """What a step is, counted from 0; of those that are accumulated the last one moves."""
        accumulate = self.settings.accumulate
        return StepPart.SUM if (step + 1) % accumulate else StepPart.WHOLE

    @property
    def batch(self) -> int:
        """Examples of one step."""
        return self.demand.batch

    @property
    def spread(self) -> Spread | None:
        """How its sessions use several devices; `None` on one."""
        if self.settings.devices == 1:
            return None
        sharding = DeviceSharding(self.settings.sharding)
        return Spread(self.settings.devices, sharding, self.demand.rows)

    def spread_over(self, device: OpenDevice) -> OpenDevice:
        """The device, or the several as one that the settings ask for; raises `DeviceError`."""
        if self.spread is not None:
            return device.spread(self.spread)
        hosts = device.hosts.count
        if hosts > 1:
            raise DeviceError(f"{hosts} hosts train together: --set devices=N says on how many")
        return device

    def scheduled_rates(self, step: int, reductions: Sequence[Reduction]) -> tuple[float, ...]:
        """As `RunSettings.learning_rates`, where nothing but `steps` ends the run."""
        settings, steps = self.settings, self.settings.steps
        length = RunLength(steps or 1, settings.steps_per_epoch or 1)
        at = step if steps is None else min(step, steps)
        return settings.learning_rates(at, length, reductions)

    @cached_property
    def program_hash(self) -> str:
        """A hash of what a step means: ops, attributes, shapes and names, not places."""
        text = format_graph(self.step, origins=False).removesuffix("\n")
        return sha256(text.encode()).hexdigest()

    def initial_values(self) -> dict[str, Array]:
        """What every kept leaf of the step holds before the first one; moments start at zero."""
        declared = {each.name: each for each in self.parameters}
        declared |= {average_of(each.name): each for each in self.parameters}
        persistent = [leaf for leaf in leaves(self.compiled) if leaf.is_persistent]
        with ThreadPoolExecutor(DRAWERS, thread_name_prefix="values") as threads:
            of_leaves = [declared.get(leaf.name) for leaf in persistent]
            arrays = threads.map(self._initial, persistent, of_leaves)
            return {leaf.name: array for leaf, array in zip(persistent, arrays, strict=True)}

    def _initial(self, leaf: Leaf, declared: ParameterInfo | None) -> Array:
        """What a kept leaf begins with: what was given, what was declared, or zeros.

        A copy begins as what it is a copy of, and the average of a parameter as the parameter.
        """
        if declared is not None:
            name = declared.name if declared.name in self.given else declared.drawn_as
            given = self.given.get(name)
            if given is not None:
                return given.astype(NUMPY[leaf.dtype], copy=False)
        shape, seed = concrete_shape(leaf.shape), self.settings.seed
        if declared is None:
            return np.zeros(shape, NUMPY[leaf.dtype])
        first = sample(declared.initializer, seed, declared.drawn_as, shape)
        return first.astype(NUMPY[leaf.dtype], copy=False)


def recipe_of(
    program: Program,
    train: str,
    settings: RunSettings,
    signature: Signature,
    start: Start | None = None,
    options: StepOptions = PLAIN,
) -> Recipe:
    """A `train` block with its settings.

    Raises `ProblemError` or `ProblemsError` for everything that is wrong with settings and weights.
    """

    def elaborated(sizes: Mapping[str, int], *, training: bool) -> Elaboration:
        return pipeline.elaborate_train(
            program, train, sizes={**settings.sizes, **sizes}, training=training
        )

    device = model_of(settings.device, settings.precision)
    wanted = training_settings(settings, options)
    named = replace(wanted, feed_learning_rate=True, gradients=False)

    joins = joins_of(signature.symbolic.graph, signature.demand.counter)[0]

    def step_of_graph(forward: Graph, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        if settings.accumulate > 1:
            forward = _joined(forward, signature, {**settings.sizes, **sizes})
        checked = with_checks(forward)
        of_part = replace(wanted, part=part)
        rewriting = rewriting_of(settings, device)
        if settings.memory_bytes is None:
            optimized = cached_training_step(checked, of_part, rewriting)
        else:
            evaluation = with_checks(elaborated(sizes, training=False).graph)
            rows = signature.demand.rows
            optimized = _within_memory(
                settings, rewriting, (checked, evaluation), of_part, rows, tuned=options.tuned
            )
        make = partial(training.training_step, forward, replace(named, part=part))
        here = {**settings.sizes, **sizes}
        counter = signature.demand.counter
        examples = 1 if counter is None else here[counter]
        return SizedStep(examples, make, optimized, signature.bounds(here), part)

    def sized(sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        return step_of_graph(elaborated(sizes, training=True).graph, sizes, part)

    forward = elaborated({}, training=True)
    require_trainable(settings, pipeline.train_settings(program, train), forward)
    first = step_of_graph(forward.graph, {}, StepPart.WHOLE)
    found = None if start is None else start.compared(forward.parameters)
    return Recipe(
        name=train,
        settings=settings,
        demand=signature.demand,
        parameters=forward.parameters,
        make_step=first.make_step,
        evaluation=lambda sizes: elaborated(sizes, training=False).graph,
        symbolic_evaluation=lambda: (
            pipeline.elaborate_train(program, train, sizes={}, training=False).graph
        ),
        sized=sized,
        bounds_at=lambda sizes: signature.bounds({**settings.sizes, **sizes}),
        start=found,
        given={} if found is None else found.read(),
        optimized=first.optimized,
        joins=joins,
        device=device,
        bounds=first.bounds,
        is_divisible=training.is_divisible(forward.graph),
    )


def _joined(forward: Graph, signature: Signature, sizes: Mapping[str, int]) -> Graph:
    """A forward graph of a step of several batches, of which the sums are those of all of them."""
    symbolic, counter = signature.symbolic.graph, signature.demand.counter
    if counter is None or joins_of(symbolic, counter)[0] is not Joins.SUMS:
        return forward
    return with_joined_loss(forward, symbolic, counter, sizes[counter])


def _within_memory(
    settings: RunSettings,
    rewriting: RewriteOptions,
    forward: tuple[Graph, Graph],
    wanted: training.TrainingSettings,
    rows: Mapping[str, int],
    *,
    tuned: bool,
) -> Graph:
    """The step of graphs that train and evaluate that takes no more than the setting `memory`.

    Raises `ProblemError` where there is none.
    """
    available = settings.memory_bytes
    assert available is not None
    with explained_failures():
        device = choose_device(settings.device, tuned=tuned, precision=settings.precision)
        device = device_of_run(device, settings, rows)
        planner = StepPlanner(device.backend, device, rewriting)
        planned = planner.plan(forward[0], wanted, forward[1], available)
    if planned.memory.bytes > available:
        raise ProblemError(TooLittleMemory.beyond(available, planned.memory.bytes))
    return planned.graph


def require_shares(
    counter: str | None, batch: int, settings: RunSettings, *, is_last: bool = False
) -> None:
    """Raise `ProblemError` unless the devices can share a batch evenly."""
    if batch % settings.devices:
        problem = IndivisibleBatch(counter or "", batch, settings.devices, is_last)
        raise ProblemError(problem)


def recipe_by_hand(
    program: Program,
    train: str,
    settings: RunSettings,
    start: Start | None = None,
    *,
    gradients: bool = False,
) -> Recipe:
    """A `train` block whose batches Python gives; raises as `recipe_of`."""
    known = {"steps": settings.steps, "steps_per_epoch": settings.steps_per_epoch}
    for schedule in settings.all_schedules:
        is_due = schedule.spans_run or schedule.needs == "steps_per_epoch"
        if is_due and not known[schedule.needs]:
            raise ProblemError(NoLength(schedule.word, schedule.needs))
    signature = Signature.of(program, train, settings)
    require_measured(program, train, settings, signature)
    require_shares(signature.demand.counter, signature.demand.batch, settings)
    options = StepOptions(steered=True, gradients=gradients)
    return recipe_of(program, train, settings, signature, start, options)


def require_measured(
    program: Program, train: str, settings: RunSettings, signature: Signature
) -> None:
    """Raise `ProblemError` unless what the best is chosen by, and schedules follow, is there."""
    best = settings.best_metric.name
    if best not in signature.measured:
        raise ProblemError(NoSuchMetric(best, signature.measured))
    require_followed(pipeline.train_settings(program, train), settings, signature.measured)


def require_followed(written: RawSettings, settings: RunSettings, known: tuple[str, ...]) -> None:
    """Raise `ProblemError` unless what schedules follow is known."""
    keys = (setting_key(SCHEDULE, glob) for glob in (None, *settings.schedules))
    for key, schedule in zip(keys, settings.all_schedules, strict=True):
        if schedule.follows is not None and schedule.follows not in known:
            span = written[key].span if key in written else whole(key)
            raise ProblemError(NothingToFollow(span, schedule.word, schedule.follows, known))


def settings_of(
    program: Program, train: str, overrides: Sequence[str] = (), *, needs_data: bool = False
) -> RunSettings:
    """The settings of a `train` block; raises `ProblemError` or `ProblemsError`.

    Only what reads the examples of the setting `data` needs it.
    """
    raw = pipeline.train_settings(program, train)
    sizes = pipeline.free_sizes(program, train)
    return resolve_settings(raw, overrides, sizes, DEVICE_NAMES, needs_data=needs_data)


@dataclass(frozen=True, eq=False)
class Step:
    """The graph of one training step, and the parameters the program declares."""

    graph: Graph
    parameters: tuple[ParameterInfo, ...]
    optimized: training.OptimizedStep


def step_of(
    program: Program, train: str, settings: RunSettings, device: DeviceModel = DEFAULT_DEVICE
) -> Step:
    """One training step of a `train` block, as it is written and as it runs."""
    forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
    require_trainable(settings, pipeline.train_settings(program, train), forward)
    whole = forward.graph
    if settings.accumulate > 1:
        whole = _joined(whole, Signature.of(program, train, settings), settings.sizes)
    checked = with_checks(whole)
    wanted = training_settings(settings)
    graph = training.training_step(checked, wanted)
    optimized = training.optimized_training_step(checked, wanted, rewriting_of(settings, device))
    return Step(graph, forward.parameters, optimized)


def require_trainable(settings: RunSettings, written: RawSettings, forward: Elaboration) -> None:
    """Raise `ProblemsError` unless the settings fit the parameters and metrics of the program."""
    problems: list[Problem] = list(group_problems(settings, written, forward.parameters))
    name = training.GRADIENT_NORM
    if settings.gradient_norm and name in forward.graph.outputs:
        span = written[name].span if name in written else whole(f"{name}=true")
        problems.append(MetricTaken(span, name))
    if problems:
        raise ProblemsError(tuple(problems))


def training_settings(
    settings: RunSettings, options: StepOptions = PLAIN
) -> training.TrainingSettings:
    """The part of the settings that the graph of a step depends on."""
    return training.TrainingSettings(
        optimizer=settings.optimizer,
        clip_norm=settings.clip_norm,
        feed_learning_rate=(options.steered or not settings.is_steady or settings.accumulate > 1),
        groups=tuple(settings.optimizers.items()),
        gradients=options.gradients,
        every=tuple(settings.intervals.items()),
        clip_value=settings.clip_value,
        gradient_norm=settings.gradient_norm,
        accumulate=settings.accumulate,
        ema=settings.ema,
        skip_not_finite=settings.not_finite == NotFinitePolicy.SKIP,
        schedules=tuple(settings.schedules),
    )


def rewriting_of(settings: RunSettings, device: DeviceModel) -> RewriteOptions:
    """What the optimizer may do."""
    return RewriteOptions(settings.optimize, tuple(settings.disabled_rules), device)


def _data_inputs(inputs: Mapping[str, TensorType]) -> Mapping[str, TensorType]:
    """The inputs that the data feeds, their free sizes still free."""
    return {name: wanted for name, wanted in inputs.items() if name not in NOT_DATA}
