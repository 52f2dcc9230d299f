"""The data of a run: from the files that its settings name, or given from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.plugins.plugin_groups import blamed, plugin_behind
from meganeura_dsl.settings.data_calls import FILE
from meganeura_dsl.settings.data_source import DataRequest, DataSource
from meganeura_dsl.settings.resolve_settings import data_of
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import OVERRIDE, RawSettings, whole
from meganeura_dsl.settings.settings_problems import UnknownSetting
from meganeura_dsl.symbolic.size import evaluate
from meganeura_runtime.io.data.batches import held_out_of, require_batch
from meganeura_runtime.io.data.data_files import (
    embedded_data,
    find_data,
    find_data_below,
)
from meganeura_runtime.io.data.data_problems import ForeignData
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data, match_held_out
from meganeura_runtime.io.data.python_data import Batches, python_data
from meganeura_runtime.io.data.python_items import FROM_PYTHON
from meganeura_runtime.io.data.readers import Reader, classes_of
from meganeura_runtime.io.data.sampling import sampling_weights
from meganeura_runtime.io.data.source_problems import (
    DataFromPython,
    NotForStreams,
    UnclearValidation,
    WrongWeights,
)
from meganeura_runtime.io.data.splits import Split, StoredSplit
from meganeura_runtime.io.data.streams import stream
from meganeura_runtime.io.preprocess.preparation import Preparation
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


@dataclass(frozen=True, eq=False)
class PythonData:
    """Data that Python passes to a run, in place of the files that its settings name."""

    train: object = None
    held_out: object = None
    is_trained_on: bool = True
    """False for an evaluation, which has no schedules that follow held-out examples."""
    classes: tuple[str, ...] = ()
    """The classes that the weights of an evaluation were trained on, by number."""

    @property
    def overrides(self) -> Sequence[str]:
        """Overrides that replace the settings `data` and `validation`."""
        train = () if self.train is None else (f"data={FROM_PYTHON}",)
        held_out = () if self.held_out is None else (f'validation="{FROM_PYTHON}"',)
        return (*train, *held_out)


FROM_FILES = PythonData()


def dataset_of(
    written: RawSettings,
    settings: RunSettings,
    input_spec: InputSpec,
    folder: Path,
    given: PythonData,
    run: Path | None = None,
) -> Dataset:
    """Returns the data that the settings name or that is given; raises `ProblemError`.

    Relative paths of the program start at `folder`. `run` is the folder of a resumed run, in which
    its data may lie.
    """
    sources = _Sources(written, settings, input_spec, folder, given, run)
    span = None if given.train is not None else span_of("data", written)
    for name in settings.tensors:
        if name not in input_spec.inputs:
            raise ProblemError(
                UnknownSetting(span_of("data", written), name, FILE, tuple(input_spec.inputs))
            )
    path, found = sources.found("data", settings.data)
    if isinstance(found, Batches):
        _require_any_order(written, settings)
        train = stream(
            found.data, input_spec, steps=settings.steps_per_epoch, drop_last=settings.drop_last
        )
        dataset = _with_held_out(Dataset(path, train, None), settings, sources)
    else:
        dataset = _with_held_out(match_data(found, input_spec, path, span), settings, sources)
        drawn = _drawn(dataset.train, found, written, settings)
        dataset = replace(
            dataset,
            train=drawn,
            preparation=sources.preparation(path, found),
            tokenizer=sources.tokenizer,
        )
    require_batch(dataset, input_spec.batch, span, drop_last=settings.drop_last)
    return dataset


def _require_any_order(written: RawSettings, settings: RunSettings) -> None:
    """Raise `ProblemError` for settings that batches in an order of their own cannot follow."""
    asked = {
        "shuffle": "shuffle" in written and settings.shuffle,
        "sampling_weights": settings.sampling_weights is not None,
        "balance": settings.balance is not None,
        "validation": isinstance(settings.validation, float),
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise ProblemError(NotForStreams(name))


def _drawn(
    split: Split,
    tensors: Mapping[str, StoredTensor],
    written: RawSettings,
    settings: RunSettings,
) -> Split:
    """Returns the examples to train on, with the chance of each to be drawn."""
    if not isinstance(split, StoredSplit):
        return split
    if settings.sampling_weights is not None and settings.balance is not None:
        reason = f"`sampling_weights` says it, by `{settings.sampling_weights}`: leave one away"
        raise ProblemError(WrongWeights(span_of("balance", written), settings.balance, reason))
    for setting, name in (
        ("sampling_weights", settings.sampling_weights),
        ("balance", settings.balance),
    ):
        if name is not None:
            span = span_of(setting, written)
            is_balance = setting == "balance"
            chances = sampling_weights(split, tensors, name, span, is_balance=is_balance)
            return replace(split, weights=chances)
    return split


def _with_held_out(dataset: Dataset, settings: RunSettings, sources: "_Sources") -> Dataset:
    """Returns the data with the held-out examples of `validation`."""
    wanted = settings.validation
    if wanted is None:
        held_out = sources.held_out()
        return dataset if held_out is None else replace(dataset, test=held_out)
    span, input_spec = span_of("validation", sources.written), sources.input_spec
    if dataset.test is not None:
        reason = "the data has examples that are held out: its tensors named `test.`"
        raise ProblemError(UnclearValidation(span, reason))
    if isinstance(wanted, float):
        return _divided(dataset, wanted, settings.seed, span)
    path, found = sources.found("validation", str(wanted))
    if not isinstance(found, Batches):
        return replace(dataset, test=match_held_out(found, input_spec, path, span))
    return replace(dataset, test=stream(found.data, input_spec, drop_last=False, held_out=True))


def span_of(setting: str, written: RawSettings) -> Span:
    """Returns the place of a setting, which a resumed run may have been given when it began."""
    return written[setting].span if setting in written else whole(setting)


def _divided(dataset: Dataset, share: float, seed: int, span: Span) -> Dataset:
    """Returns the data with a share of the examples held out, which the seed selects."""
    split = dataset.train
    assert isinstance(split, StoredSplit)
    out = held_out_of(seed, split.examples, share)
    if not len(out) or len(out) == split.examples:
        reason = f"{share:g} of {split.examples:,} examples are {len(out):,}"
        raise ProblemError(UnclearValidation(span, reason))
    remaining = np.delete(np.arange(split.examples), out)
    return replace(dataset, train=split.only(remaining), test=split.only(out))


@dataclass(frozen=True)
class _Sources:
    """The places of data: paths in settings, and data from Python."""

    written: RawSettings
    settings: RunSettings
    input_spec: InputSpec
    folder: Path
    given: PythonData
    run: Path | None
    """The folder of a resumed run."""

    def found(self, setting: str, value: str) -> tuple[Path, Mapping[str, StoredTensor] | Batches]:
        """Returns the path and the tensors that a setting names."""
        given = self.given.train if setting == "data" else self.given.held_out
        if given is not None:
            return FROM_PYTHON, python_data(given, self.input_spec)
        if setting == "data" and self.source is not None:
            with blamed(self.source, "when it was asked for examples"):
                examples = self.source.examples(self._request)
            return Path(value), python_data(examples, self.input_spec, self._of_source)
        path = self.path(setting, value)
        return path, self._reader(setting).tensors(path)

    @property
    def source(self) -> DataSource | None:
        """The source of another package, unless Python gives the data."""
        return None if self.given.train is not None else self.settings.source

    def held_out(self) -> Split | None:
        """Returns the held-out examples of a source of another package, if it has them."""
        if self.source is None:
            return None
        with blamed(self.source, "when it was asked for held-out examples"):
            examples = self.source.held_out(self._request)
        if examples is None:
            return None
        found = python_data(examples, self.input_spec, self._of_source)
        if isinstance(found, Batches):
            return stream(found.data, self.input_spec, drop_last=False, held_out=True)
        path = Path(self.settings.data)
        return match_held_out(found, self.input_spec, path, span_of("data", self.written))

    @property
    def _of_source(self) -> str:
        plugin = plugin_behind(self.source)
        assert plugin is not None
        return f"what `{plugin.name}` of `{plugin.owner}` returned"

    @property
    def _request(self) -> DataRequest:
        sizes = self.input_spec.sizes
        inputs = {
            name: TensorType(each.dtype, tuple(evaluate(size, sizes) for size in each.shape))
            for name, each in self.input_spec.inputs.items()
        }
        return DataRequest(inputs, self.folder)

    def preparation(self, path: Path, tensors: Mapping[str, StoredTensor]) -> Preparation:
        """Returns the transforms that made tensors of files; none for data of Python code."""
        if self.given.train is not None or self.source is not None:
            return Preparation(self.given.classes)
        found = self._reader("data").preparation(path, tensors)
        return replace(found, classes=self.given.classes or found.classes)

    @property
    def tokenizer(self) -> Path | None:
        """The tokenizer.json that texts are read by, if the settings name one."""
        name = self.settings.reading.tokenizer
        return None if name is None else self.path("data", name)

    def _reader(self, setting: str) -> Reader:
        reading = self.settings.reading
        preprocess = None if reading.preprocess is None else self.path("data", reading.preprocess)
        span = self.written[setting].span if setting in self.written else None
        workers = self.settings.workers
        classes = self.given.classes if setting == "data" else self.classes()
        drawn = (self.settings.sampling_weights, self.settings.balance)
        more = tuple(name for name in drawn if name is not None and setting == "data")
        return Reader(
            self.input_spec, reading, workers, preprocess, self.tokenizer, span, classes, more
        )

    def classes(self) -> tuple[str, ...]:
        """The names of the classes that are trained on, where the data is folders of them."""
        if self.given.train is not None or self.source is not None or self.given.classes:
            return self.given.classes
        return classes_of(self.path("data", self.settings.data))

    def path(self, setting: str, value: str) -> Path:
        """Returns the path of data: from the command line, the program, or a resumed run.

        Such a run may have been given its path on the command line when it began. What its
        checkpoint says is not trusted: it is to be below the run's own folder or the program's.
        """
        if value == str(FROM_PYTHON):
            raise ProblemError(DataFromPython())
        written = self.written.get(setting)
        span = None if written is None else written.span
        if span is not None and span.source.name == OVERRIDE:
            return find_data(value, Path(), span)
        if written is not None and value in _texts_of(written.value):
            return find_data_below(value, self.folder, span)
        trusted = [each.resolve() for each in (self.folder, self.run) if each is not None]
        is_below = any(Path(value).resolve().is_relative_to(each) for each in trusted)
        if value not in embedded_data() and not is_below:
            raise ProblemError(ForeignData(None, Path(value)))
        return find_data(value, Path(), span)


def _texts_of(value: StaticValue) -> list[StaticValue | None]:
    """Returns the path that a setting names, and the arguments that may name another."""
    path, arguments = data_of(value)
    return [path, *arguments.values()]
