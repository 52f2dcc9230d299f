"""The specification of a training: a `train` block, its settings, steps and initial values."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.initializers import sample
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.declared_optimizers import declared_optimizers
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.named_metrics import metric_problems
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.joined_loss import Joins
from meganeura_dsl.transforms.optimizers.schedules import Reduction, RunLength
from meganeura_dsl.transforms.optimizers.update import average_of
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import is_divisible
from meganeura_runtime.backends.backend import OpenDevice, Spread
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import DEVICE_NAMES
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array
from meganeura_runtime.io.weight_names import AS_STORED, Names
from meganeura_runtime.io.weights import STRICT, Allowed, Comparison, compare
from meganeura_runtime.train.spec.joined_metrics import Joining
from meganeura_runtime.train.spec.session_inputs import leaves
from meganeura_runtime.train.spec.step_graphs import (
    ProgramGraphs,
    SizedStep,
    StepGraphs,
    StepOptions,
    TrainSignature,
    require_trainable,
)
from meganeura_runtime.train.training_problems import IndivisibleBatch, NoLength

DRAWERS = 4
"""Threads that draw initial values."""


@dataclass(frozen=True)
class Start:
    """Weights to start from, and how they may differ from the parameters."""

    files: tuple[Path, ...]
    allowed: Allowed = STRICT
    names: Names = AS_STORED

    def compared(self, parameters: Sequence[ParameterInfo]) -> Comparison:
        """Matches tensors of the files with the parameters; raises `ProblemError` as `compare`."""
        return compare(self.files, parameters, self.allowed, self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainSpec:
    """The specification of a training: a `train` block with settings, its steps and parameters."""

    name: str
    """The name of the `train` block."""
    settings: RunSettings
    input_spec: InputSpec
    parameters: tuple[ParameterInfo, ...]
    """The parameters that the program declares; optimizers add leaves to `step`."""
    whole_step: SizedStep
    """The step on a full batch."""
    graphs: StepGraphs
    """The steps and evaluations of batches of other sizes."""
    start: Comparison | None = None
    """The weights to start from, which replace initial values."""
    given: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """The values of these weights, by the names of parameters."""
    device: DeviceModel = DEFAULT_DEVICE
    """The device that steps are rewritten for."""
    preparation: Preparation = NOTHING
    """The transforms that made inputs of files, and the names of the classes by number."""
    joins: Joins = Joins.MEAN
    """The relation of the loss of an update to the losses of its batches."""
    is_divisible: bool = True
    """True if a step can be made in two parts, the gradients and the update."""
    sources: tuple[Source, ...] = ()
    """The files of the program, itself first, without other files of the standard library."""

    @cached_property
    def joining(self) -> Joining | None:
        """The way to join measurements of several batches; `None` where no size counts examples."""
        counter = self.input_spec.counter
        if counter is None or self.input_spec.ragged.names:
            return None
        sizes = {name: size for name, size in self.settings.sizes.items() if name != counter}
        try:
            symbolic = self.graphs.symbolic_evaluation()
        except ProblemError:  # such as one of a size that these numbers are not of
            return None
        return None if symbolic is None else Joining(symbolic, counter, sizes)

    @property
    def step(self) -> Graph:
        """One training step as the program says it, in f32; its learning rate is an input."""
        return self.whole_step.step

    @property
    def compiled(self) -> Graph:
        """The graph that runs, with the leaves, outputs and updates of `step`.

        In f16 it has those of the loss scale as well.
        """
        return self.whole_step.optimized

    def part_at(self, step: int) -> StepPart:
        """Returns the part of a step, counted from 0; the last accumulated one moves parameters."""
        accumulate = self.settings.accumulate
        return StepPart.SUM if (step + 1) % accumulate else StepPart.WHOLE

    @property
    def batch(self) -> int:
        """Examples of one step."""
        return self.input_spec.batch

    @property
    def spread(self) -> Spread | None:
        """The use of several devices by its sessions; `None` on one."""
        if self.settings.devices == 1:
            return None
        sharding = DeviceSharding(self.settings.sharding)
        return Spread(self.settings.devices, sharding, self.input_spec.rows)

    def spread_over(self, device: OpenDevice) -> OpenDevice:
        """Returns the device, or all that the settings ask for as one; raises `DeviceError`."""
        if self.spread is not None:
            return device.spread(self.spread)
        hosts = device.hosts.count
        if hosts > 1:
            raise DeviceError(f"{hosts} hosts train together: --set devices=N says on how many")
        return device

    def scheduled_rates(self, step: int, reductions: Sequence[Reduction]) -> tuple[float, ...]:
        """Returns `RunSettings.learning_rates` of a run that only `steps` ends."""
        settings, steps = self.settings, self.settings.steps
        length = RunLength(steps or 1, settings.steps_per_epoch or 1)
        at = step if steps is None else min(step, steps)
        return settings.learning_rates(at, length, reductions)

    @cached_property
    def program_hash(self) -> str:
        """A hash of the ops, attributes, shapes and names of a step, but not of source places."""
        text = format_graph(self.step, origins=False).removesuffix("\n")
        return sha256(text.encode()).hexdigest()

    def initial_values(self) -> dict[str, Array]:
        """Returns the values of all persistent leaves before the first step; moments are zero."""
        declared = {each.name: each for each in self.parameters}
        declared |= {average_of(each.name): each for each in self.parameters}
        persistent = [leaf for leaf in leaves(self.compiled) if leaf.is_persistent]
        with ThreadPoolExecutor(DRAWERS, thread_name_prefix="values") as threads:
            of_leaves = [declared.get(leaf.name) for leaf in persistent]
            arrays = threads.map(self._initial, persistent, of_leaves)
            return {leaf.name: array for leaf, array in zip(persistent, arrays, strict=True)}

    def _initial(self, leaf: Leaf, declared: ParameterInfo | None) -> Array:
        """Returns the value of a persistent leaf: given weights, a declared initializer, or zeros.

        A copy begins as its original, and the average of a parameter as the parameter.
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


def train_spec_of(graphs: ProgramGraphs, start: Start | None = None) -> TrainSpec:
    """Returns the specification of a `train` block with these graphs.

    Raises `ProblemError` or `ProblemsError` for everything that is wrong with settings and weights.
    """
    settings, signature, device, joins = (
        graphs.settings, graphs.signature, graphs.device, graphs.joins
    )  # fmt: skip
    forward = graphs.elaborated({}, training=True)
    written = pipeline.train_settings(graphs.program, graphs.train)
    require_trainable(settings, written, forward)
    step = graphs.step_of(forward.graph, {}, StepPart.WHOLE)
    found = None if start is None else start.compared(forward.parameters)
    return TrainSpec(
        name=graphs.train,
        settings=settings,
        input_spec=signature.input_spec,
        parameters=forward.parameters,
        whole_step=step,
        graphs=graphs,
        start=found,
        given={} if found is None else found.read(),
        device=device,
        joins=joins,
        is_divisible=is_divisible(forward.graph),
        sources=graphs.program.sources,
    )


def require_shares(
    counter: str | None, batch: int, settings: RunSettings, *, is_last: bool = False
) -> None:
    """Raise `ProblemError` unless the devices can share a batch evenly."""
    if batch % settings.devices:
        problem = IndivisibleBatch(counter or "", batch, settings.devices, is_last)
        raise ProblemError(problem)


def manual_spec(
    program: Program,
    train: str,
    settings: RunSettings,
    start: Start | None = None,
    *,
    gradients: bool = False,
) -> TrainSpec:
    """Returns the specification of a manual loop, which is given its batches one by one.

    Raises as `train_spec_of`.
    """
    for size in pipeline.ragged_of(program, train).names:
        node = program.module.trains[train]
        reason = "is a ragged size, whose examples `train` joins: no loop of one's own gives them"
        raise ProblemError(NotAllowedHere(Location(node.name.span), f"`{size}`", reason))
    known = {"steps": settings.steps, "steps_per_epoch": settings.steps_per_epoch}
    for schedule in settings.all_schedules:
        is_due = schedule.spans_run or schedule.needs == "steps_per_epoch"
        if is_due and not known[schedule.needs]:
            raise ProblemError(NoLength(schedule.word, schedule.needs))
    signature = TrainSignature.of(program, train, settings)
    require_measured(program, train, settings, signature)
    require_shares(signature.input_spec.counter, signature.input_spec.batch, settings)
    options = StepOptions(steered=True, gradients=gradients)
    return train_spec_of(ProgramGraphs(program, train, settings, signature, options), start)


def require_measured(
    program: Program, train: str, settings: RunSettings, signature: TrainSignature
) -> None:
    """Raise `ProblemError` unless the metrics of `best` and of the schedules are measured."""
    written = pipeline.train_settings(program, train)
    for problem in metric_problems(settings, written, signature.measured):
        raise ProblemError(problem)


def settings_of(
    program: Program, train: str, overrides: Sequence[str] = (), *, needs_data: bool = False
) -> RunSettings:
    """Returns the settings of a `train` block; raises `ProblemError` or `ProblemsError`.

    `needs_data` makes a missing `data` a problem.
    """
    raw = pipeline.train_settings(program, train)
    sizes = pipeline.free_sizes(program, train)
    declared = declared_optimizers(program.module)
    return resolve_settings(
        raw, overrides, sizes, DEVICE_NAMES, needs_data=needs_data, declared=declared
    )
