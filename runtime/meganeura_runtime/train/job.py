"""A training run ready to start: program, settings and data are checked against each other here.

Everything that can be wrong without making a step is found before one is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings, data_of
from meganeura_dsl.settings.setting_values import FILE, OVERRIDE, RawSettings, with_overrides
from meganeura_dsl.settings.settings_problems import UnknownSetting
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
from meganeura_runtime.train.data_fingerprint import fingerprints
from meganeura_runtime.train.recipe import (
    Recipe,
    Signature,
    SizedStep,
    Start,
    recipe_of,
    require_shares,
    settings_of,
)
from meganeura_runtime.train.training_problems import NoSuchMetric, NothingToStopBy


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(Recipe):
    """A recipe and the examples it is to be trained on: all that the training loop works on."""

    dataset: Dataset
    last: SizedStep | None = None
    """The step on a last batch that is not full; `None` where there is no such batch."""

    @staticmethod
    def of(recipe: Recipe, dataset: Dataset) -> "Job":
        """A recipe with its data; raises `ProblemError` for a last batch that cannot be."""
        settings, counter = recipe.settings, recipe.demand.counter
        if settings.stop_after is not None and dataset.test is None:
            raise ProblemError(NothingToStopBy())
        examples = 0 if settings.drop_last else dataset.train.examples % recipe.batch
        last = None
        if examples and counter is not None:
            require_shares(counter, examples, settings, is_last=True)
            last = recipe.resized({counter: examples})
        given = {each.name: getattr(recipe, each.name) for each in fields(Recipe)}
        return Job(**given, dataset=dataset, last=last)

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
        wanted = self.settings.steps
        return self.steps_per_epoch * self.settings.epochs if wanted is None else wanted

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, of which the last may end early."""
        return -(-self.steps // self.steps_per_epoch)

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """What the run is fed; all of it is read for that, once."""
        return fingerprints(self.dataset)


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
    signature = Signature.of(program, train, settings)
    demand = signature.demand
    require_shares(demand.counter, demand.batch, settings)
    raw = with_overrides(pipeline.train_settings(program, train), overrides)
    dataset = _dataset(raw, settings, demand, folder, run)
    bounds = signature.bounds(settings.sizes)
    check_dataset(dataset, bounds, raw["data"].span)
    measured = signature.measured
    if settings.best_metric.name not in measured:
        raise ProblemError(NoSuchMetric(settings.best_metric.name, measured))
    recipe = recipe_of(program, train, settings, signature, start)
    unchecked = {name: bound for name, bound in bounds.items() if name not in demand.inputs}
    return Job.of(replace(recipe, bounds=unchecked), dataset)


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
