"""A training that is ready to start: program, settings and data are checked against each other.

Every mistake that can be found without making a step is found here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.named_metrics import followed_problems, metric_problems
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data.batches import order_of_pass, steps_of_epoch
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.index_bounds import bounded
from meganeura_runtime.io.data.ragged_problems import NoRaggedRun
from meganeura_runtime.io.data.ragged_split import RaggedSplit
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.data_fingerprint import fingerprints
from meganeura_runtime.train.data.run_data import FROM_FILES, PythonData, dataset_of, span_of
from meganeura_runtime.train.records.run_logs import log_openers
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.step_graphs import (
    ProgramGraphs,
    SizedStep,
    StepOptions,
    TrainSignature,
)
from meganeura_runtime.train.spec.text_sample import TextSample
from meganeura_runtime.train.spec.train_spec import (
    Start,
    TrainSpec,
    require_shares,
    train_spec_of,
)
from meganeura_runtime.train.training_problems import NothingToStopBy, NoUpdate


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainJob:
    """A specification and the examples to train on: all that the training loop works on."""

    spec: TrainSpec
    dataset: Dataset
    last: SizedStep | None = None
    """The step on a last batch that is not full; `None` where there is no such batch."""
    sample: TextSample | None = None
    """The sample that is written after each evaluation; `None` where none is."""
    sums: tuple[SizedStep, ...] = ()
    """Steps that only add up gradients, one for each size of a batch; empty for most runs."""

    @staticmethod
    def of(spec: TrainSpec, dataset: Dataset) -> "TrainJob":
        """Returns the job of a specification and its data; raises `ProblemError`."""
        settings, counter = spec.settings, spec.input_spec.counter
        if dataset.test is None:
            for setting in ("stop_after", "eval_every_steps"):
                if getattr(settings, setting) is not None:
                    raise ProblemError(NothingToStopBy(setting))
        examples = 0 if settings.drop_last else dataset.train.examples % spec.batch
        last, sizes = None, [dict[str, int]()]
        ragged = bool(spec.input_spec.ragged.names)
        if examples and counter is not None and not ragged:
            require_shares(counter, examples, settings, is_last=True)
            sizes.append({counter: examples})
            last = spec.graphs.sized(sizes[-1], StepPart.WHOLE)
        adds_up = settings.accumulate > 1
        sums = tuple(spec.graphs.sized(each, StepPart.SUM) for each in sizes if adds_up)
        spec = replace(spec, preparation=dataset.preparation)
        job = TrainJob(spec=spec, dataset=dataset, last=last, sums=sums)
        if 0 < job.steps < settings.accumulate:
            raise ProblemError(NoUpdate(settings.accumulate, job.steps))
        return job

    @property
    def settings(self) -> RunSettings:
        """The settings of the specification."""
        return self.spec.settings

    @property
    def batch(self) -> int:
        """Examples of a full batch."""
        return self.spec.batch

    @property
    def steps_per_pass(self) -> int:
        """Batches of all examples; a last one that is not full counts unless it is dropped."""
        return steps_of_epoch(
            self.dataset.train.examples, self.batch, drop_last=self.settings.drop_last
        )

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch: of all examples, or as many as the settings say."""
        return self.settings.steps_per_epoch or self.steps_per_pass

    @property
    def left_out(self) -> int:
        """Examples that a pass leaves out, as they do not fill a batch; others each time."""
        return max(0, self.dataset.train.examples - self.steps_per_pass * self.batch)

    def examples_of(self, step: int) -> int:
        """Returns the number of examples in the batch of a step, counted from 0."""
        position = step % self.steps_per_pass
        return min(self.batch, self.dataset.train.examples - position * self.batch)

    def is_last_of_its_size(self, step: int) -> bool:
        """Returns True if the next step is of another epoch, or on a batch of another size."""
        ends_epoch = (step + 1) % self.steps_per_epoch == 0
        return ends_epoch or self.examples_of(step + 1) != self.examples_of(step)

    @property
    def others(self) -> tuple[SizedStep, ...]:
        """The other steps of a run, beside that on a full batch."""
        return (*self.sums, *(() if self.last is None else (self.last,)))

    def step_at(self, step: int, fed: Mapping[str, Array]) -> Graph:
        """Returns the training step of that number, counted from 0, as the program says it.

        `fed` are its inputs, by which its ragged sizes are known.
        """
        inputs = self.spec.input_spec.inputs
        if self.spec.input_spec.ragged.names:
            sizes = bind_sizes(inputs, {name: fed[name].shape for name in inputs})
            return self.spec.graphs.sized(sizes, self.spec.part_at(step)).step
        wanted = self.examples_of(step), self.spec.part_at(step)
        found = (each.step for each in self.others if (each.examples, each.part) == wanted)
        return next(found, self.spec.step)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        wanted = self.settings.steps
        return self.steps_per_epoch * self.settings.epochs if wanted is None else wanted

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, of which the last may end early."""
        return -(-self.steps // self.steps_per_epoch)

    @property
    def length(self) -> RunLength:
        """The length of the whole run."""
        return RunLength(self.steps, self.steps_per_epoch)

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """Hashes of the data of the run, all of which is read for them, once."""
        return fingerprints(self.dataset)


def prepare(
    program: Program,
    train: str,
    folder: Path,
    overrides: Sequence[str] = (),
    start: Start | None = None,
    data: PythonData = FROM_FILES,
) -> TrainJob:
    """Returns the job of a new run from the parts of a request; raises as `prepare_new`."""
    return prepare_new(RunRequest(program, train, folder, overrides, data), start)


def prepare_new(request: RunRequest, start: Start | None = None, *, tuned: bool = True) -> TrainJob:
    """Returns the job of a new run.

    `tuned` uses the tuned kernels of the device. Raises `ProblemError` or `ProblemsError` for
    everything that is wrong with settings, data and weights.
    """
    return prepare_with(request, request.settings_with_data, start, tuned=tuned)


def prepare_with(
    request: RunRequest,
    settings: RunSettings,
    start: Start | None = None,
    run: Path | None = None,
    *,
    tuned: bool = True,
) -> TrainJob:
    """Returns the job of a run with these settings.

    `run` is the folder of a resumed run, which keeps the settings it began with. Raises as
    `prepare_new`.
    """
    log_openers(settings)
    signature = TrainSignature.of(request.program, request.train, settings)
    input_spec = signature.input_spec
    require_shares(input_spec.counter, input_spec.batch, settings)
    written = request.written
    bounds = signature.bounds(settings.sizes)
    for problem in metric_problems(settings, written, signature.measured):
        raise ProblemError(problem)
    dataset = dataset_of(written, settings, input_spec, request.folder, request.data, run)
    dataset = bounded(dataset, bounds, span_of("data", written))
    first = _first_sizes(request, settings, signature, dataset)
    checked = {name: bound for name, bound in bounds.items() if name in input_spec.inputs}
    # A session of other sizes knows a whole step by the learning rate that it is fed.
    options = StepOptions(steered=bool(input_spec.ragged.names), tuned=tuned)
    graphs = ProgramGraphs(
        request.program, request.train, settings, signature, options, checked, first
    )
    spec = train_spec_of(graphs, start)
    if request.data.is_trained_on:
        _require_measured(written, spec, dataset)
    place, tokenizer = span_of("sample_prompt", written), dataset.tokenizer
    sample = TextSample.of(
        request.program, request.train, settings, spec.parameters, tokenizer, place
    )
    return replace(TrainJob.of(spec, dataset), sample=sample)


def _first_sizes(
    request: RunRequest, settings: RunSettings, signature: TrainSignature, dataset: Dataset
) -> dict[str, int]:
    """The ragged sizes of the first batch; empty where there are none.

    Raises `ProblemError` for what such a run cannot do.
    """
    input_spec = signature.input_spec
    if not input_spec.ragged.names:
        return {}
    written, split = request.written, dataset.train
    if not isinstance(split, RaggedSplit):
        raise ProblemError(NoRaggedRun(span_of("data", written), "batches of an iterable"))
    for name, value in (("accumulate", settings.accumulate), ("devices", settings.devices)):
        if value > 1:
            raise ProblemError(NoRaggedRun(span_of(name, written), f"`{name} = {value}`"))
    return split.sizes_of(order_of_pass(settings, split, 0)[: input_spec.batch])


def _require_measured(written: RawSettings, spec: TrainSpec, dataset: Dataset) -> None:
    """Raise `ProblemError` unless what schedules follow is measured after epochs."""
    if all(schedule.follows is None for schedule in spec.settings.all_schedules):
        return
    measured = dict[str, Value]() if dataset.test is None else spec.graphs.evaluation({}).outputs
    known = tuple(name for name, value in measured.items() if value.type.rank == 0)
    for problem in followed_problems(spec.settings, written, known):
        raise ProblemError(problem)
