"""A training run ready to start: program, settings and data are checked against each other here.

Everything that can be wrong without making a step is found before one is made.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Problem, ProblemError, ProblemsError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds, with_checks
from meganeura_dsl.ir.initializers import sample
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.parameter_groups import group_problems
from meganeura_dsl.settings.run_settings import (
    RunSettings,
    data_of,
    resolve_settings,
)
from meganeura_dsl.settings.setting_values import (
    FILE,
    OVERRIDE,
    RawSettings,
    whole,
    with_overrides,
)
from meganeura_dsl.settings.settings_problems import (
    MetricTaken,
    NothingToFollow,
    UnknownSetting,
)
from meganeura_dsl.transforms import training_step as training
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_runtime.backends.backend import OpenDevice, Spread
from meganeura_runtime.backends.compile_cache import cached_training_step
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import DEVICE_NAMES, model_of
from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data.batches import require_batch, steps_of_epoch
from meganeura_runtime.io.data.data_files import (
    embedded_data,
    find_data,
    find_data_below,
    open_data,
)
from meganeura_runtime.io.data.data_problems import ForeignData
from meganeura_runtime.io.data.dataset import Dataset, Demand, match_data
from meganeura_runtime.io.data.index_bounds import check_dataset
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array
from meganeura_runtime.io.weights import STRICT, Allowed, Comparison, compare
from meganeura_runtime.train.data_fingerprint import fingerprints
from meganeura_runtime.train.session_inputs import NOT_DATA, leaves
from meganeura_runtime.train.training_problems import IndivisibleBatch

DRAWERS = 4
"""Threads that draw initial values."""


@dataclass(frozen=True)
class Start:
    """Weights to start from, and how they may differ from the parameters."""

    files: tuple[Path, ...]
    allowed: Allowed = STRICT


@dataclass(frozen=True, eq=False)
class LastStep:
    """The step on the last batch of an epoch, where that is smaller than the others."""

    examples: int
    make_step: Callable[[], Graph]
    optimized: Graph

    @cached_property
    def step(self) -> Graph:
        """It, as the program says it."""
        return self.make_step()


@dataclass(frozen=True, eq=False)
class Job:
    """All that the training loop works on."""

    name: str
    settings: RunSettings
    dataset: Dataset
    demand: Demand
    parameters: tuple[ParameterInfo, ...]
    """What the program declares; optimizers add leaves of their own to `step`."""
    make_step: Callable[[], Graph]
    """What makes `step`, as a run from the cache hardly needs it."""
    evaluation: Callable[[int], Graph]
    """The graph that measures the loss and the metrics of a number of held-out examples."""
    start: Comparison | None = None
    """The weights to start from, which replace initial values."""
    given: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """What these weights are."""
    optimized: Graph | None = None
    """The same step, rewritten to run faster; `None` runs `step` as it is."""
    device: DeviceModel = DEFAULT_DEVICE
    """What it is rewritten for."""
    last: LastStep | None = None
    """The step on a last batch that is not full; `None` where there is no such batch."""
    bounds: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """Of parameters that are indices; those of the data are checked already."""

    @cached_property
    def step(self) -> Graph:
        """One training step, as the program says it."""
        return self.make_step()

    @property
    def compiled(self) -> Graph:
        """The graph that runs, with the leaves, outputs and updates of `step`, which it means."""
        return self.step if self.optimized is None else self.optimized

    @property
    def batch(self) -> int:
        """Examples of one step."""
        return self.demand.batch

    @property
    def spread(self) -> Spread | None:
        """How its sessions use several devices; `None` on one."""
        if self.settings.devices == 1:
            return None
        rows = {name: feed.rows for name, feed in self.dataset.train.feeds.items() if feed.rows}
        return Spread(self.settings.devices, DeviceSharding(self.settings.sharding), rows)

    def spread_over(self, device: OpenDevice) -> OpenDevice:
        """The device, or the several as one that the settings ask for; raises `DeviceError`."""
        if self.spread is not None:
            return device.spread(self.spread)
        hosts = device.hosts.count
        if hosts > 1:
            raise DeviceError(f"{hosts} hosts train together: --set devices=N says on how many")
        return device

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; a last one that is not full counts unless it is dropped."""
        return steps_of_epoch(
            self.dataset.train.examples, self.batch, drop_last=self.settings.drop_last
        )

    @property
    def left_out(self) -> int:
        """Examples that an epoch leaves out, as they do not fill a batch; others each time."""
        return max(0, self.dataset.train.examples - self.steps_per_epoch * self.batch)

    def examples_of(self, position: int) -> int:
        """How many examples the batch of that number takes, counted from 0 in its epoch."""
        return min(self.batch, self.dataset.train.examples - position * self.batch)

    def is_last_of_its_size(self, position: int) -> bool:
        """Whether the next step is of another epoch, or on a batch of another size."""
        full = self.dataset.train.examples // self.batch
        return position + 1 in (full, self.steps_per_epoch)

    def step_on(self, examples: int) -> Graph:
        """One training step on a batch of that size, as the program says it."""
        return self.step if self.last is None or examples == self.batch else self.last.step

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.settings.epochs

    @property
    def length(self) -> RunLength:
        """How long the whole run is."""
        return RunLength(self.steps, self.steps_per_epoch)

    @cached_property
    def program_hash(self) -> str:
        """A hash of what a step means: ops, attributes, shapes and names, not places."""
        text = format_graph(self.step, origins=False).removesuffix("\n")
        return sha256(text.encode()).hexdigest()

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """What the run is fed; all of it is read for that, once."""
        return fingerprints(self.dataset)

    def initial_values(self) -> dict[str, Array]:
        """What every kept leaf of the step holds before the first one; moments start at zero."""
        declared = {each.name: each for each in self.parameters}
        kept = [leaf for leaf in leaves(self.compiled) if leaf.is_kept]
        with ThreadPoolExecutor(DRAWERS, thread_name_prefix="values") as threads:
            of_leaves = [declared.get(leaf.name) for leaf in kept]
            arrays = threads.map(self._initial, kept, of_leaves)
            return {leaf.name: array for leaf, array in zip(kept, arrays, strict=True)}

    def _initial(self, leaf: Leaf, declared: ParameterInfo | None) -> Array:
        """What a kept leaf begins with: what was given, what was declared, or zeros."""
        if leaf.name in self.given:
            return self.given[leaf.name]
        shape = concrete_shape(leaf.shape)
        if declared is None:
            return np.zeros(shape, NUMPY[leaf.dtype])
        first = sample(declared.initializer, self.settings.seed, leaf.name, shape)
        return first.astype(NUMPY[leaf.dtype], copy=False)


def prepare(
    program: Program,
    train: str,
    folder: Path,
    overrides: Sequence[str] = (),
    start: Start | None = None,
    revise: Callable[[RunSettings], RunSettings] = lambda settings: settings,
    run: Path | None = None,
) -> Job:
    """A job from a `train` block; relative data paths of the program start at `folder`.

    `revise` has the last word on the settings: a run that goes on has those it began with, and lies
    in the folder `run`.

    Raises `ProblemError` or `ProblemsError` for everything that is wrong with settings, data and
    weights.
    """
    settings = revise(settings_of(program, train, overrides))
    symbolic = pipeline.elaborate_train(program, train, sizes={}, training=True)
    demand = Demand(
        _data_inputs(symbolic.inputs),
        settings.sizes,
        pipeline.whole_inputs(program, train),
        settings.tensors,
    )
    _require_shares(demand.counter, demand.batch, settings)
    raw = with_overrides(pipeline.train_settings(program, train), overrides)
    dataset = _dataset(raw, settings, demand, folder, run)
    bounds = all_of(
        leaf_bounds(symbolic.graph, settings.sizes), symbolic.stated_bounds(settings.sizes)
    )
    check_dataset(dataset, bounds, raw["data"].span)

    def elaborated(examples: int, *, training: bool) -> Elaboration:
        sizes = dict(settings.sizes)
        if demand.counter is not None:
            sizes[demand.counter] = examples
        return pipeline.elaborate_train(program, train, sizes=sizes, training=training)

    forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
    require_trainable(settings, raw, forward)
    _require_measured(settings, raw, forward, dataset)
    wanted = training_settings(settings)
    device = model_of(settings.device, settings.precision)
    checked = with_checks(forward.graph)
    optimized = cached_training_step(checked, wanted, rewriting_of(settings, device))
    rest = 0 if settings.drop_last else dataset.train.examples % demand.batch
    last = None
    if rest:
        _require_shares(demand.counter, rest, settings, is_last=True)
        last = _last_step(elaborated(rest, training=True).graph, rest, settings, device)
    found = None if start is None else compare(start.files, forward.parameters, start.allowed)
    given = {} if found is None else found.read()
    return Job(
        name=train,
        settings=settings,
        dataset=dataset,
        demand=demand,
        parameters=forward.parameters,
        make_step=partial(training.training_step, forward.graph, wanted),
        evaluation=lambda examples: elaborated(examples, training=False).graph,
        start=found,
        given=given,
        optimized=optimized,
        device=device,
        last=last,
        bounds={name: bound for name, bound in bounds.items() if name not in demand.inputs},
    )


def _require_shares(
    counter: str | None, batch: int, settings: RunSettings, *, is_last: bool = False
) -> None:
    """Raise `ProblemError` unless the devices can share a batch evenly."""
    if batch % settings.devices:
        problem = IndivisibleBatch(counter or "", batch, settings.devices, is_last)
        raise ProblemError(problem)


def _last_step(
    forward: Graph, examples: int, settings: RunSettings, device: DeviceModel
) -> LastStep:
    """The step on a last batch of so many examples."""
    wanted = training_settings(settings)
    optimized = cached_training_step(with_checks(forward), wanted, rewriting_of(settings, device))
    return LastStep(examples, partial(training.training_step, forward, wanted), optimized)


def settings_of(program: Program, train: str, overrides: Sequence[str] = ()) -> RunSettings:
    """The settings of a `train` block; raises `ProblemError` or `ProblemsError`."""
    raw = pipeline.train_settings(program, train)
    return resolve_settings(raw, overrides, pipeline.free_sizes(program, train), DEVICE_NAMES)


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
    checked = with_checks(forward.graph)
    wanted = training_settings(settings)
    graph = training.training_step(checked, wanted)
    optimized = training.optimized_training_step(checked, wanted, rewriting_of(settings, device))
    return Step(graph, forward.parameters, optimized)


def require_trainable(settings: RunSettings, written: RawSettings, forward: Elaboration) -> None:
    """Raise `ProblemsError` unless the settings fit the parameters and metrics of the program."""
    places = {key: setting.span for key, setting in written.items()}
    problems: list[Problem] = list(group_problems(settings, places, forward.parameters))
    name = training.GRADIENT_NORM
    if settings.gradient_norm and name in forward.graph.outputs:
        problems.append(MetricTaken(places.get(name) or whole(name), name))
    if problems:
        raise ProblemsError(tuple(problems))


def _require_measured(
    settings: RunSettings, written: RawSettings, forward: Elaboration, dataset: Dataset
) -> None:
    """Raise `ProblemError` unless what the schedule follows is measured after epochs."""
    follows = settings.schedule.follows
    known = () if dataset.test is None else tuple(forward.graph.outputs)
    if follows is not None and follows not in known:
        place = written["schedule"].span if "schedule" in written else whole("schedule")
        raise ProblemError(NothingToFollow(place, settings.schedule.word, follows, known))


def training_settings(settings: RunSettings) -> training.TrainingSettings:
    """The part of the settings that the graph of a step depends on."""
    return training.TrainingSettings(
        settings.optimizer,
        settings.clip_norm,
        not settings.schedule.is_steady,
        tuple(settings.optimizers.items()),
        settings.clip_value,
        settings.gradient_norm,
    )


def rewriting_of(settings: RunSettings, device: DeviceModel) -> RewriteOptions:
    """What the optimizer may do."""
    return RewriteOptions(settings.optimize, tuple(settings.disabled_rules), device)


def _data_inputs(inputs: Mapping[str, TensorType]) -> Mapping[str, TensorType]:
    """The inputs that the data feeds, their free sizes still free."""
    return {name: wanted for name, wanted in inputs.items() if name not in NOT_DATA}


def _dataset(
    written: RawSettings, settings: RunSettings, demand: Demand, folder: Path, run: Path | None
) -> Dataset:
    """The data that the settings name, checked; a path of the command line starts where one is."""
    place = written["data"].span
    for name in settings.tensors:
        if name not in demand.inputs:
            raise ProblemError(UnknownSetting(place, name, FILE, tuple(demand.inputs)))
    path = _data_path(written, settings.data, folder, run)
    dataset = match_data(open_data(path, place), demand, path, place)
    require_batch(dataset, demand.batch, place, drop_last=settings.drop_last)
    return dataset


def _data_path(written: RawSettings, data: str, folder: Path, run: Path | None) -> Path:
    """Where the data is: named on the command line, by the program, or by a run that goes on.

    Such a run may have been given its path on the command line when it began. What its checkpoint
    says is not trusted: it is to be below the run's own folder or the program's.
    """
    setting = written["data"]
    if setting.span.source.name == OVERRIDE:
        return find_data(data, Path(), setting.span)
    if data_of(setting.value)[0] == data:
        return find_data_below(data, folder, setting.span)
    trusted = [folder.resolve(), *([] if run is None else [run.resolve()])]
    is_below = any(Path(data).resolve().is_relative_to(each) for each in trusted)
    if data not in embedded_data() and not is_below:
        raise ProblemError(ForeignData(None, Path(data)))
    return find_data(data, Path(), setting.span)
