"""The graphs of a `train` block: steps and evaluations, for batches of any size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Problem, ProblemError, ProblemsError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.declarations.ragged_axes import Ragged, derived_names
from meganeura_dsl.elaborate.declarations.written_settings import setting_key
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds, with_checks
from meganeura_dsl.ir.outputs import Objective
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.parameter_groups import group_problems
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, whole
from meganeura_dsl.settings.settings_problems import MetricTaken, MovedInRepeat
from meganeura_dsl.transforms import training_step as training
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.joined_loss import Joins, joins_of, with_joined_loss
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.backends.compile_cache import cached_training_step
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import TooLittleMemory
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.train.spec.session_inputs import NOT_DATA
from meganeura_runtime.train.spec.step_planning import PlannedStep, StepPlanner, device_of_run

if TYPE_CHECKING:
    from meganeura_dsl.transforms.egraph.optimized import Optimized


@dataclass(frozen=True)
class StepOptions:
    """Properties of a step that no setting asks for."""

    steered: bool = False
    """True feeds the learning rate of each step, also where the schedule is constant."""
    gradients: bool = False
    """True makes the gradients outputs."""
    tuned: bool = True
    """True uses the tuned kernels of the device, which affects the memory of a step."""


PLAIN = StepOptions()


OFF = RewriteOptions(enabled=False)


@dataclass(frozen=True, eq=False)
class SizedStep:
    """A training step on a batch of one size, or a part of it."""

    examples: int
    """Examples of its batch."""
    forward: Graph
    """The graph of the loss and the metrics."""
    settings: training.TrainingSettings
    """The settings of `optimized`."""
    optimized: Graph
    """The step that runs, rewritten to run faster."""
    bounds: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """Bounds of the inputs and parameters that are indices and are checked when they are given."""
    rewriting: RewriteOptions = OFF
    """The options of the optimizer that made `optimized`."""

    @property
    def part(self) -> StepPart:
        """The part of a step that this graph computes."""
        return self.settings.part

    @cached_property
    def step(self) -> Graph:
        """The step as the program says it, in f32; its learning rate is an input."""
        plain = replace(
            self.settings,
            feed_learning_rate=True,
            gradients=False,
            scale_loss=False,
            recompute_above=None,
        )
        return training.training_step(self.forward, plain)

    def optimizations(self) -> "tuple[Optimized, ...]":
        """Returns the optimizations that lead to `optimized`, which may come from the cache.

        They are made anew. The result of the last is `optimized` itself, so that a certificate is
        of the graph that runs. Empty if the optimizer is off.
        """
        forward = with_checks(self.forward)
        made = training.optimized_training_step(forward, self.settings, self.rewriting)
        if not made.optimizations:
            return ()
        *earlier, last = made.optimizations
        return (*earlier, replace(last, graph=self.optimized))


@dataclass(frozen=True, eq=False)
class TrainSignature:
    """The batches of a `train` block, and its graph with sizes as symbols."""

    symbolic: Elaboration
    input_spec: InputSpec

    @staticmethod
    def of(program: Program, train: str, settings: RunSettings) -> "TrainSignature":
        """Returns the signature of a `train` block; raises `ProblemError`."""
        symbolic = pipeline.elaborate_train(program, train, sizes={}, training=True)
        ragged = pipeline.ragged_of(program, train)
        input_spec = InputSpec(
            _data_inputs(symbolic.inputs, ragged),
            settings.sizes,
            pipeline.whole_inputs(program, train),
            settings.tensors,
            ragged,
        )
        return TrainSignature(symbolic, input_spec)

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the results of an evaluation: the loss and the metrics."""
        return tuple(
            name for name in self.symbolic.graph.outputs if not isinstance(name, Objective)
        )

    def bounds(self, sizes: Mapping[str, int]) -> dict[str, Bound]:
        """Returns the bounds of the inputs and parameters that are indices."""
        return all_of(leaf_bounds(self.symbolic.graph, sizes), self.symbolic.stated_bounds(sizes))


class StepGraphs(Protocol):
    """The graphs of a `train` block for batches of any size.

    `sizes` are the sizes that differ from those of the settings. Each method may raise
    `ProblemError`.
    """

    def evaluation(self, sizes: Mapping[str, int]) -> Graph:
        """Returns the graph that measures the loss and the metrics of a batch."""
        ...

    def symbolic_evaluation(self) -> Graph | None:
        """Returns that graph with sizes as symbols, if there is one."""
        ...

    def sized(self, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        """Returns the step, or a part of it."""
        ...

    def bounds(self, sizes: Mapping[str, int]) -> Mapping[str, Bound]:
        """Returns the bounds of the inputs and parameters that are indices."""
        ...


@dataclass(frozen=True, eq=False)
class ProgramGraphs:
    """The graphs that a program makes with the settings of a run."""

    program: Program
    train: str
    """The name of the `train` block."""
    settings: RunSettings
    signature: TrainSignature
    options: StepOptions = PLAIN
    checked: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """Bounds that all examples were checked against, so that no step checks them again.

    A smaller batch may have narrower bounds, where an index selects one of its rows."""
    first: Mapping[str, int] = field(default_factory=dict[str, int])
    """The ragged sizes of the first batch, which a step of no other sizes has."""

    @cached_property
    def device(self) -> DeviceModel:
        """The device that steps are rewritten for."""
        return model_of(self.settings.device, self.settings.precision)

    @cached_property
    def step_settings(self) -> training.TrainingSettings:
        """The settings of the steps that run."""
        return training_settings(self.settings, self.options)

    @cached_property
    def joins(self) -> Joins:
        """The relation of the loss of an update to the losses of its batches."""
        return joins_of(self.signature.symbolic.graph, self.signature.input_spec.counter)[0]

    def elaborated(self, sizes: Mapping[str, int], *, training: bool) -> Elaboration:
        """Returns the `train` block with numbers for its sizes; raises `ProblemError`."""
        shows = training and self.settings.log_every > 0
        return pipeline.elaborate_train(
            self.program, self.train, sizes=self._all_sizes(sizes), training=training, shows=shows
        )

    def evaluation(self, sizes: Mapping[str, int]) -> Graph:
        """Returns the graph that measures the loss and the metrics of a batch."""
        return self.elaborated(sizes, training=False).graph

    def symbolic_evaluation(self) -> Graph | None:
        """Returns that graph with sizes as symbols."""
        return pipeline.elaborate_train(self.program, self.train, sizes={}, training=False).graph

    def sized(self, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        """Returns the step, or a part of it."""
        return self.step_of(self.elaborated(sizes, training=True).graph, sizes, part)

    def bounds(self, sizes: Mapping[str, int]) -> Mapping[str, Bound]:
        """Returns the bounds of the inputs and parameters that are indices."""
        return self.signature.bounds(self._all_sizes(sizes))

    def step_of(self, forward: Graph, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        """Returns the step of a graph that is elaborated for these sizes."""
        settings, here = self.settings, self._all_sizes(sizes)
        if settings.accumulate > 1:
            forward = _joined(forward, self.signature, here)
        checked = with_checks(forward)
        of_part = replace(self.step_settings, part=part)
        rewriting = rewriting_of(settings, self.device)
        if settings.memory_bytes is None:
            optimized = cached_training_step(checked, of_part, rewriting)
        else:
            evaluation = with_checks(self.evaluation(sizes))
            rows = self.signature.input_spec.rows
            planned = _within_memory(
                settings, rewriting, (checked, evaluation), of_part, rows, tuned=self.options.tuned
            )
            of_part, optimized = planned.settings, planned.graph
        counter = self.signature.input_spec.counter
        return SizedStep(
            examples=1 if counter is None else here[counter],
            forward=forward,
            settings=of_part,
            optimized=optimized,
            bounds=self._unchecked(self.signature.bounds(here)),
            rewriting=rewriting,
        )

    def _all_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return {**self.settings.sizes, **self.first, **sizes}

    def _unchecked(self, bounds: Mapping[str, Bound]) -> dict[str, Bound]:
        return {name: bound for name, bound in bounds.items() if self.checked.get(name) != bound}


def _joined(forward: Graph, signature: TrainSignature, sizes: Mapping[str, int]) -> Graph:
    """Returns a forward graph whose sums are those of all batches of one update."""
    symbolic, counter = signature.symbolic.graph, signature.input_spec.counter
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
) -> PlannedStep:
    """Returns the step of graphs that train and evaluate within the setting `memory`.

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
    return planned


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """The graph of one training step, and the parameters the program declares."""

    graph: Graph
    parameters: tuple[ParameterInfo, ...]
    optimized: training.OptimizedStep


def step_of(
    program: Program, train: str, settings: RunSettings, device: DeviceModel = DEFAULT_DEVICE
) -> TrainingStep:
    """Returns one training step of a `train` block, as it is written and as it runs."""
    forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
    require_trainable(settings, pipeline.train_settings(program, train), forward)
    whole = forward.graph
    if settings.accumulate > 1:
        whole = _joined(whole, TrainSignature.of(program, train, settings), settings.sizes)
    checked = with_checks(whole)
    wanted = training_settings(settings)
    graph = training.training_step(checked, wanted)
    optimized = training.optimized_training_step(checked, wanted, rewriting_of(settings, device))
    return TrainingStep(graph, forward.parameters, optimized)


def require_trainable(settings: RunSettings, written: RawSettings, forward: Elaboration) -> None:
    """Raise `ProblemsError` unless the settings fit the parameters and metrics of the program."""
    problems: list[Problem] = list(group_problems(settings, written, forward.parameters))
    name = training.GRADIENT_NORM
    if settings.gradient_norm and name in forward.graph.outputs:
        span = written[name].span if name in written else whole(f"{name}=true")
        problems.append(MetricTaken(span, name))
    problems += _moved_again(settings, written, training.moved_again(forward.graph))
    if problems:
        raise ProblemsError(tuple(problems))


def _moved_again(
    settings: RunSettings, written: RawSettings, names: Sequence[str]
) -> Iterator[Problem]:
    """The settings that ask for fewer moves of parameters that a `repeat` moves, by their names."""
    asked = [("accumulate", "*")] if settings.accumulate > 1 else []
    asked += [(setting_key("every", glob), glob) for glob in settings.intervals]
    for key, glob in asked:
        name = next((each for each in names if fnmatchcase(each, glob)), None)
        if name is not None:
            value = settings.accumulate if key == "accumulate" else settings.intervals[glob]
            span = written[key].span if key in written else whole(f"{key}={value}")
            yield MovedInRepeat(span, key, name)


def training_settings(
    settings: RunSettings, options: StepOptions = PLAIN
) -> training.TrainingSettings:
    """Returns the settings that the graph of a step depends on."""
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
        scale_loss=settings.scales_loss,
        schedules=tuple(settings.schedules),
    )


def rewriting_of(settings: RunSettings, device: DeviceModel) -> RewriteOptions:
    """Returns the options of the optimizer of graphs."""
    return RewriteOptions(settings.optimize, tuple(settings.disabled_rules), device)


def _data_inputs(inputs: Mapping[str, TensorType], ragged: Ragged) -> Mapping[str, TensorType]:
    """Returns the inputs that the data feeds, with their free sizes as symbols."""
    derived = derived_names(ragged)
    return {
        name: wanted
        for name, wanted in inputs.items()
        if name not in NOT_DATA and name not in derived
    }
