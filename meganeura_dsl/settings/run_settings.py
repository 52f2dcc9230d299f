"""The settings of a training run: what may be written under `run:`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction as Ratio
from typing import Annotated, cast

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from meganeura_dsl.plugins.plugin_groups import blamed
from meganeura_dsl.settings.best_metric import LOWEST_LOSS, BestMetric, best_metric
from meganeura_dsl.settings.choices import OptimizerChoice, ScheduleChoice, SourceChoice, Strict
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_names import ANY_DEVICE
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.setting import ForPaths, Setting
from meganeura_dsl.settings.settings_context import devices_of
from meganeura_dsl.support.byte_sizes import parsed_bytes
from meganeura_dsl.transforms.optimizers.schedules import Reduction, RunLength, Schedule


def _device(name: str, given: ValidationInfo) -> str:
    """The name of a device, as far as who validates the settings knows them."""
    names = devices_of(given.context) or ANY_DEVICE
    if not names.accepts(name):
        raise ValueError(f"must be {names.listed()}")
    return name


def _data(path: str, given: ValidationInfo) -> str:
    """A file, which a person may not leave empty; a checkpoint may have been given batches."""
    if not path and devices_of(given.context) is not None:
        raise ValueError("must not be empty")
    return path


def _not_finite(policy: str) -> str:
    if policy not in {*NotFinitePolicy}:
        raise ValueError(f"must be {' or '.join(NotFinitePolicy)}")
    return policy


def _best(text: str) -> str:
    """`lowest loss`, or another metric of which the lowest or highest value is the best."""
    best_metric(text)
    return text


def _sharding(name: str) -> str:
    if name not in {*DeviceSharding}:
        raise ValueError(f"must be {' or '.join(DeviceSharding)}")
    return name


def _validation(given: object) -> str | float | None:
    """A file, or the share of the examples that is held out."""
    if isinstance(given, float) and not 0 < given < 1:
        raise ValueError("must be above 0 and below 1, or a file")
    if given is None or (isinstance(given, str | float) and given):
        return given
    raise PydanticCustomError("no_validation", "a text or a share is due")


def _memory(amount: str | None) -> str | None:
    """An amount such as 8GiB."""
    if amount is not None:
        try:
            parsed_bytes(amount)
        except ValueError:
            raise ValueError("must be an amount such as 8GiB or 512MB") from None
    return amount


def _log(names: list[str]) -> list[str]:
    if not {*names} <= {*LogFormat}:
        raise ValueError(f"must list {' or '.join(LogFormat)}")
    return names


FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
"""Ways to resample an image, by Pillow's names."""


def _filter(name: str) -> str:
    if name not in FILTERS:
        raise ValueError(f"must be {', '.join(FILTERS[:-1])} or {FILTERS[-1]}")
    return name


class ReaderOptions(Strict):
    """The arguments of `images(...)`, `table(...)` and `text(...)`, which make tensors of files."""

    crop: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the edge of a resized image that remains."""
    mean: Annotated[list[float], Field(min_length=1, max_length=3)] | None = None
    std: Annotated[list[PositiveFloat], Field(min_length=1, max_length=3)] | None = None
    resample: Annotated[str, AfterValidator(_filter)] | None = None
    preprocess: str | None = None
    """A file `preprocessor_config.json`, as checkpoints of Hugging Face have it."""
    columns: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """The columns of a table that feed each input."""
    tokenizer: str | None = None
    """A file of the library `tokenizers`."""


class RunSettings(Strict):
    """All settings of a training run: each field declares a type, bounds, a default and a text.

    `settings.json` has the fields in this order, and so have the documentation and the messages.
    """

    data: Annotated[
        str,
        AfterValidator(_data),
        Setting(
            meaning="a file of examples, a glob of several, or the name of an embedded data set",
            example='"digits"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = ""
    """Empty only where Python gives the batches."""
    tensors: dict[str, str] = Field(default_factory=dict[str, str])
    """Names of tensors in the data, by the inputs that have other names; a part of `data`."""
    reading: ReaderOptions = ReaderOptions()
    """Arguments of the call in `data`, for files that hold no tensors."""
    source: SourceChoice | None = None
    """The source of data of another package that `data` names."""
    workers: Annotated[
        int,
        Field(ge=0, le=256),
        Setting(
            meaning="processes that decode images and sounds; 0 decodes where it trains",
            example="2",
            is_resumable=True,
        ),
    ] = 2
    sizes: dict[str, PositiveInt]
    """The sizes that the inputs leave open, each of which is written by its own name."""
    validation: Annotated[
        str | float | None,
        PlainValidator(_validation),
        Setting(
            meaning="the held-out examples: a file, or a share such as 0.1 of the examples",
            example="0.1",
            is_resumable=True,
            is_bare=True,
        ),
    ] = None
    sampling_weights: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Setting(
            meaning="a tensor with the frequency of each example, drawn with replacement",
            example='"weight"',
            is_bare=True,
        ),
    ] = None
    balance: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Setting(
            meaning="an integer tensor of classes, each of which is drawn as often as the others",
            example='"label"',
            is_bare=True,
        ),
    ] = None
    epochs: Annotated[
        NonNegativeInt,
        Setting(
            meaning="passes over all examples; 0 writes the initial weights",
            example="10",
            is_resumable=True,
        ),
    ] = 1
    steps: Annotated[
        PositiveInt | None,
        Setting(
            meaning="the number of steps of a run, in place of epochs",
            example="1000",
            is_resumable=True,
        ),
    ] = None
    steps_per_epoch: Annotated[
        PositiveInt | None,
        Setting(
            meaning="the batches of an epoch, where that is not all examples",
            example="100",
        ),
    ] = None
    optimizer: Annotated[
        OptimizerChoice,
        Setting(
            meaning="the rule that moves the parameters, such as adam",
            example="adam(lr=1e-3)",
            default_choice="adam",
        ),
    ]
    optimizers: Annotated[dict[str, OptimizerChoice | None], ForPaths("optimizer")] = Field(
        default_factory=dict[str, OptimizerChoice | None]
    )
    """Optimizers by globs of paths, of which the last match counts; None moves nothing."""
    intervals: Annotated[dict[str, PositiveInt], ForPaths("every")] = Field(
        default_factory=dict[str, PositiveInt]
    )
    """Steps between two updates, by globs of paths; the last match counts."""
    schedule: Annotated[
        ScheduleChoice,
        Setting(
            meaning="the course of the learning rate, such as cosine",
            example="cosine(warmup=100)",
            is_resumable=True,
            default_choice="constant",
        ),
    ]
    schedules: Annotated[dict[str, ScheduleChoice], ForPaths("schedule")] = Field(
        default_factory=dict[str, ScheduleChoice]
    )
    """Schedules in place of `schedule`, by globs of paths; the last match counts."""
    seed: Annotated[
        int,
        Field(ge=0, lt=2**32),
        Setting(meaning="the seed of everything random", example="0"),
    ] = 0
    shuffle: Annotated[
        bool,
        Setting(meaning="true draws the examples of each epoch in a new order", example="false"),
    ] = True
    drop_last: Annotated[
        bool,
        Setting(
            meaning="true leaves out the examples of an epoch that do not fill a last batch",
            example="false",
        ),
    ] = True
    clip_norm: Annotated[
        PositiveFloat | None,
        Setting(
            meaning="the largest norm all gradients together may have",
            example="1.0",
        ),
    ] = None
    clip_value: Annotated[
        PositiveFloat | None,
        Setting(
            meaning="the largest absolute value an element of a gradient may have",
            example="1.0",
        ),
    ] = None
    gradient_norm: Annotated[
        bool,
        Setting(
            meaning="true makes the norm of all gradients, before clipping, a metric",
            example="true",
        ),
    ] = False
    accumulate: Annotated[
        PositiveInt,
        Setting(
            meaning="the batches of one update, which takes the mean of their gradients",
            example="4",
        ),
    ] = 1
    ema: Annotated[
        Annotated[float, Field(gt=0, lt=1)] | None,
        Setting(
            meaning="the decay of an average of the weights, for evaluation and saved weights",
            example="0.999",
        ),
    ] = None
    not_finite: Annotated[
        str,
        AfterValidator(_not_finite),
        Setting(
            meaning="the response to a gradient that is not finite: stop, skip the update, ignore",
            example='"skip"',
            is_bare=True,
        ),
    ] = NotFinitePolicy.STOP.value
    best: Annotated[
        str,
        AfterValidator(_best),
        Setting(
            meaning="the metric that the best weights are chosen by, such as highest accuracy",
            example='"highest accuracy"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = LOWEST_LOSS
    stop_after: Annotated[
        PositiveInt | None,
        Setting(
            meaning="evaluations without a better one after which a run ends",
            example="3",
            is_resumable=True,
        ),
    ] = None
    log_every: Annotated[
        NonNegativeInt,
        Setting(
            meaning="steps between two lines of the log; 0 logs no steps",
            example="50",
            is_resumable=True,
        ),
    ] = 50
    log: Annotated[
        list[str],
        AfterValidator(_log),
        Setting(
            meaning="logs of other tools that a run keeps too: tensorboard, wandb",
            example='["tensorboard"]',
            is_resumable=True,
        ),
    ] = Field(default_factory=list[str])
    eval_every: Annotated[
        PositiveInt,
        Setting(
            meaning="epochs between two evaluations on the held-out examples",
            example="1",
            is_resumable=True,
        ),
    ] = 1
    eval_every_steps: Annotated[
        PositiveInt | None,
        Setting(
            meaning="steps between two evaluations within an epoch, besides those after epochs",
            example="200",
            is_resumable=True,
        ),
    ] = None
    sample_prompt: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Setting(
            meaning="the text that a sample of the model goes on from, after each evaluation",
            example='"Once upon a time"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = None
    sample_tokens: Annotated[
        PositiveInt,
        Setting(
            meaning="tokens of such a sample",
            example="100",
            is_resumable=True,
        ),
    ] = 64
    save_every: Annotated[
        PositiveInt,
        Setting(meaning="epochs between two checkpoints", example="1", is_resumable=True),
    ] = 1
    device: Annotated[
        str,
        AfterValidator(_device),
        Setting(
            meaning="the device, as `meganeura devices` lists it, or auto",
            example='"wgpu"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = "auto"
    devices: Annotated[
        PositiveInt,
        Setting(
            meaning="devices of the backend `xla` that share each batch, on all hosts together",
            example="2",
            is_resumable=True,
        ),
    ] = 1
    sharding: Annotated[
        str,
        AfterValidator(_sharding),
        Setting(
            meaning="the parameters on each of them: data, all of them; fsdp, a share",
            example='"fsdp"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = DeviceSharding.DATA.value
    precision: Annotated[
        ComputePrecision,
        Field(strict=False),
        Setting(
            meaning="the floats of products: f32, on `xla` also tf32 or bf16, on `dawn` f16",
            example='"bf16"',
            is_resumable=True,
            is_bare=True,
        ),
    ] = ComputePrecision.F32
    memory: Annotated[
        str | None,
        AfterValidator(_memory),
        Setting(
            meaning="the device memory of a run, such as 8GiB: scans recompute iterations to fit",
            example='"8GiB"',
            is_bare=True,
        ),
    ] = None
    optimize: Annotated[
        bool,
        Setting(
            meaning="true rewrites the graph of a step so that it runs faster",
            example="false",
        ),
    ] = True
    disabled_rules: Annotated[
        list[str],
        Setting(
            meaning="rewrite rules that are not applied",
            example='["fold"]',
        ),
    ] = Field(default_factory=list[str])

    def learning_rate(self, step: int, run: RunLength) -> float:
        """The rate of a step, counted from 0, before what evaluations do to it.

        The schedule counts updates, of which `accumulate` steps make one.
        """
        return self._rate_by(self.schedule, step, run)

    def learning_rates(
        self, step: int, run: RunLength, reductions: Sequence[Reduction]
    ) -> tuple[float, ...]:
        """The rates of a step by each of `all_schedules`; `reductions` is what became of them.

        All are of the optimizer of all paths.
        """
        pairs = zip(self.all_schedules, reductions, strict=True)
        return tuple(self._rate_by(each, step, run) * reduction.scale for each, reduction in pairs)

    def reduced(
        self, before: Sequence[Reduction], measured: Mapping[str, float]
    ) -> tuple[Reduction, ...]:
        """Returns the reductions of `all_schedules` after an evaluation.

        Nothing of those that follow what was not measured.
        """
        return tuple(
            _reduced(each, reduction, measured)
            for each, reduction in zip(self.all_schedules, before, strict=True)
        )

    @property
    def all_schedules(self) -> tuple[Schedule, ...]:
        """`schedule`, and those of paths."""
        return (self.schedule, *self.schedules.values())

    @property
    def scales_loss(self) -> bool:
        """True if gradients would vanish in the floats of products, without a scaled loss."""
        return self.precision is ComputePrecision.F16

    @property
    def skips(self) -> bool:
        """True if an update is left out where a gradient is not finite."""
        return self.not_finite == NotFinitePolicy.SKIP or self.scales_loss

    @property
    def is_steady(self) -> bool:
        """True if all rates are the same in every step."""
        return all(each.is_steady for each in self.all_schedules)

    def _rate_by(self, schedule: Schedule, step: int, run: RunLength) -> float:
        k = self.accumulate
        if k > 1:
            run = RunLength(max(1, run.steps // k), Ratio(run.steps_per_epoch, k))
        with blamed(schedule, f"for the rate of step {step}"):
            factor = schedule.at(step // k, run)
            if not isinstance(cast("object", factor), int | float):
                raise TypeError(f"`at` returned {factor!r}")
            return self.optimizer.lr * factor

    @property
    def memory_bytes(self) -> int | None:
        """The bytes of `memory`; `None` where it is not given."""
        return None if self.memory is None else parsed_bytes(self.memory)

    @property
    def best_metric(self) -> BestMetric:
        """The metric that the best weights are chosen by."""
        return best_metric(self.best)


def _reduced(schedule: Schedule, before: Reduction, measured: Mapping[str, float]) -> Reduction:
    """Returns what an evaluation does to the rates by one schedule."""
    with blamed(schedule, "after an evaluation"):
        value = measured.get(schedule.follows or "")
        return before if value is None else schedule.measured(before, value)


SETTINGS: Mapping[str, Setting] = {
    name: setting
    if field.is_required()
    else replace(setting, default=field.get_default(call_default_factory=True))
    for name, field in RunSettings.model_fields.items()
    for setting in field.metadata
    if isinstance(setting, Setting)
}
"""The settings that are written under `run:`, by their names.

The other fields of `RunSettings` are parts of `data`, free sizes, and settings for paths.
"""

FIELDS_BY_PATH: Mapping[str, str] = {
    name: each.setting
    for name, field in RunSettings.model_fields.items()
    for each in field.metadata
    if isinstance(each, ForPaths)
}
"""The settings that may be for paths, by the fields that hold their values."""
