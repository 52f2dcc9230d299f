"""A training run ready to start: program, settings and data are checked against each other here.

Everything that can be wrong without making a step is found before one is made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, with_overrides
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data.batches import steps_of_epoch
from meganeura_runtime.io.data.dataset import Dataset
from meganeura_runtime.io.data.index_bounds import bounded
from meganeura_runtime.train.data.data_fingerprint import fingerprints
from meganeura_runtime.train.data.run_data import NOTHING, Given, dataset_of, span_of
from meganeura_runtime.train.records.run_logs import log_openers
from meganeura_runtime.train.spec.train_spec import (
    Recipe,
    Signature,
    SizedStep,
    Start,
    StepOptions,
    recipe_of,
    require_followed,
    require_shares,
    settings_of,
)
from meganeura_runtime.train.training_problems import NoSuchMetric, NothingToStopBy, NoUpdate

Revision = Callable[[RunSettings], RunSettings]
"""From the settings of a program to those of a run that goes on, which are as it began."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(Recipe):
    """A recipe and the examples it is to be trained on: all that the training loop works on."""

    dataset: Dataset
    last: SizedStep | None = None
    """The step on a last batch that is not full; `None` where there is no such batch."""
    sums: tuple[SizedStep, ...] = ()
    """The same of batches whose gradients are added up alone, if there are any."""

    @staticmethod
    def of(recipe: Recipe, dataset: Dataset) -> "Job":
        """A recipe with its data; raises `ProblemError` for one that cannot be."""
        settings, counter = recipe.settings, recipe.demand.counter
        if settings.stop_after is not None and dataset.test is None:
            raise ProblemError(NothingToStopBy())
        examples = 0 if settings.drop_last else dataset.train.examples % recipe.batch
        last, sizes = None, [dict[str, int]()]
        if examples and counter is not None:
            require_shares(counter, examples, settings, is_last=True)
            sizes.append({counter: examples})
            last = recipe.sized(sizes[-1], StepPart.WHOLE)
        adds_up = settings.accumulate > 1
        sums = tuple(recipe.sized(each, StepPart.SUM) for each in sizes if adds_up)
        given = {each.name: getattr(recipe, each.name) for each in fields(Recipe)}
        given["preparation"] = dataset.preparation
        job = Job(**given, dataset=dataset, last=last, sums=sums)
        if 0 < job.steps < settings.accumulate:
            raise ProblemError(NoUpdate(settings.accumulate, job.steps))
        return job

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
        """How many examples the batch of a step takes, counted from 0."""
        position = step % self.steps_per_pass
        return min(self.batch, self.dataset.train.examples - position * self.batch)

    def is_last_of_its_size(self, step: int) -> bool:
        """Whether the step after this one is of another epoch, or on a batch of another size."""
        ends_epoch = (step + 1) % self.steps_per_epoch == 0
        return ends_epoch or self.examples_of(step + 1) != self.examples_of(step)

    @property
    def others(self) -> tuple[SizedStep, ...]:
        """All that steps may be, besides `compiled`."""
        return (*self.sums, *(() if self.last is None else (self.last,)))

    def step_at(self, step: int) -> Graph:
        """The training step of that number, counted from 0, as the program says it."""
        wanted = self.examples_of(step), self.part_at(step)
        found = (each.step for each in self.others if (each.examples, each.part) == wanted)
        return next(found, self.step)

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
        """How long the whole run is."""
        return RunLength(self.steps, self.steps_per_epoch)

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """What the run is fed; all of it is read for that, once."""
        return fingerprints(self.dataset)


def prepare(
    program: Program,
    train: str,
    folder: Path,
    overrides: Sequence[str] = (),
    start: Start | Revision | None = None,
    data: Given = NOTHING,
    *,
    tuned: bool = True,
) -> Job:
    """A job from a `train` block; relative data paths of the program start at `folder`.

    A new run may start from weights; one that goes on has a revision, which has the last word on
    the settings. What `data` gives takes the place of the files that the settings name. `tuned`
    says whether kernels are as they were tuned for the device.

    Raises `ProblemError` or `ProblemsError` for everything that is wrong with settings, data and
    weights.
    """
    overrides = [*overrides, *data.overrides]
    weights, revise = (start, None) if isinstance(start, Start | None) else (None, start)
    settings = _settings(program, train, overrides, revise)
    log_openers(settings)
    signature = Signature.of(program, train, settings)
    demand = signature.demand
    require_shares(demand.counter, demand.batch, settings)
    raw = with_overrides(pipeline.train_settings(program, train), overrides)
    bounds = signature.bounds(settings.sizes)
    measured = signature.measured
    if settings.best_metric.name not in measured:
        raise ProblemError(NoSuchMetric(settings.best_metric.name, measured))
    dataset = dataset_of(raw, settings, demand, folder, data)
    dataset = bounded(dataset, bounds, span_of("data", raw))
    recipe = recipe_of(program, train, settings, signature, weights, StepOptions(tuned=tuned))
    if data.is_trained_on:
        _require_measured(raw, recipe, dataset)
    checked = {name: bound for name, bound in bounds.items() if name in demand.inputs}
    return Job.of(_without(recipe, checked), dataset)


def _without(recipe: Recipe, checked: Mapping[str, Bound]) -> Recipe:
    """A recipe that leaves out bounds which the data keeps to.

    A smaller batch may have narrower ones, where an index picks one of its rows.
    """

    def unchecked(bounds: Mapping[str, Bound]) -> dict[str, Bound]:
        return {name: bound for name, bound in bounds.items() if checked.get(name) != bound}

    def sized(sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        step = recipe.sized(sizes, part)
        return replace(step, bounds=unchecked(step.bounds))

    return replace(recipe, bounds=unchecked(recipe.bounds), sized=sized)


def _settings(
    program: Program,
    train: str,
    overrides: Sequence[str],
    revise: Revision | None,
) -> RunSettings:
    """The settings, of which a run that goes on knows the data. Raises as `settings_of`."""
    if revise is None:
        return settings_of(program, train, overrides, needs_data=True)
    settings = revise(settings_of(program, train, overrides))
    if settings.data:
        return settings
    return revise(settings_of(program, train, overrides, needs_data=True))


def _require_measured(written: RawSettings, recipe: Recipe, dataset: Dataset) -> None:
    """Raise `ProblemError` unless what schedules follow is measured after epochs."""
    if all(schedule.follows is None for schedule in recipe.settings.all_schedules):
        return
    measured = dict[str, Value]() if dataset.test is None else recipe.evaluation({}).outputs
    known = tuple(name for name, value in measured.items() if value.type.rank == 0)
    require_followed(written, recipe.settings, known)
