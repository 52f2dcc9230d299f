"""The settings of a training run: what may be written under `run:`."""

from collections.abc import Mapping, Sequence
from fractions import Fraction as Ratio
from typing import Annotated

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

from meganeura_dsl.settings.best_metric import LOWEST_LOSS, BestMetric, best_metric
from meganeura_dsl.settings.choices import OptimizerChoice, ScheduleChoice, Strict
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_names import ANY_DEVICE, DeviceNames
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.support.byte_sizes import parsed_bytes
from meganeura_dsl.transforms.optimizers.schedules import Reduction, RunLength, Schedule


def _device(name: str, given: ValidationInfo) -> str:
    """The name of a device, as far as who validates the settings knows them."""
    context: object = given.context
    names = context if isinstance(context, DeviceNames) else ANY_DEVICE
    if not names.accepts(name):
        raise ValueError(f"must be {names.listed()}")
    return name


def _data(path: str, given: ValidationInfo) -> str:
    """A file, which a person may not leave empty; a checkpoint may have been given batches."""
    context: object = given.context
    if not path and context is not None:
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

EXAMPLES = {
    "images": 'images("flowers", crop=0.875)',
    "table": 'table("flowers.csv", x=["width", "height"], y="kind")',
    "text": 'text("corpus.txt", tokenizer="tokenizer.json")',
}
"""Calls that name data, by their words."""


def _filter(name: str) -> str:
    if name not in FILTERS:
        raise ValueError(f"must be {', '.join(FILTERS[:-1])} or {FILTERS[-1]}")
    return name


class Reading(Strict):
    """How files are read that hold no tensors: arguments of `images(...)`, `table(...)`, ..."""

    crop: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of a resized image's edge that is shown."""
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
    """Everything a training run needs to know besides the program."""

    data: Annotated[str, AfterValidator(_data)] = ""
    """Empty only where Python gives the batches."""
    tensors: dict[str, str] = Field(default_factory=dict[str, str])
    """For inputs whose tensors have other names in the data, these names."""
    reading: Reading = Reading()
    """How files are read that hold no tensors."""
    workers: Annotated[int, Field(ge=0, le=256)] = 2
    sizes: dict[str, PositiveInt]
    validation: Annotated[str | float | None, PlainValidator(_validation)] = None
    sampling_weights: Annotated[str, Field(min_length=1)] | None = None
    balance: Annotated[str, Field(min_length=1)] | None = None
    epochs: NonNegativeInt = 1
    steps: PositiveInt | None = None
    steps_per_epoch: PositiveInt | None = None
    optimizer: OptimizerChoice
    optimizers: dict[str, OptimizerChoice | None] = Field(
        default_factory=dict[str, OptimizerChoice | None]
    )
    """Those of the paths that match a glob, of which the last counts; None moves nothing."""
    intervals: dict[str, PositiveInt] = Field(default_factory=dict[str, PositiveInt])
    """How many steps those of the paths that match a glob wait; the last match counts."""
    schedule: ScheduleChoice
    schedules: dict[str, ScheduleChoice] = Field(default_factory=dict[str, ScheduleChoice])
    """Those of the paths that match a glob, in place of `schedule`; the last match counts."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    shuffle: bool = True
    drop_last: bool = True
    clip_norm: PositiveFloat | None = None
    clip_value: PositiveFloat | None = None
    gradient_norm: bool = False
    accumulate: PositiveInt = 1
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    not_finite: Annotated[str, AfterValidator(_not_finite)] = NotFinitePolicy.STOP.value
    best: Annotated[str, AfterValidator(_best)] = LOWEST_LOSS
    stop_after: PositiveInt | None = None
    log_every: NonNegativeInt = 50
    log: Annotated[list[str], AfterValidator(_log)] = Field(default_factory=list[str])
    eval_every: PositiveInt = 1
    save_every: PositiveInt = 1
    device: Annotated[str, AfterValidator(_device)] = "auto"
    devices: PositiveInt = 1
    sharding: Annotated[str, AfterValidator(_sharding)] = DeviceSharding.DATA.value
    precision: Annotated[ComputePrecision, Field(strict=False)] = ComputePrecision.F32
    memory: Annotated[str | None, AfterValidator(_memory)] = None
    optimize: bool = True
    disabled_rules: list[str] = Field(default_factory=list[str])

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
        """What an evaluation makes of the reductions of `all_schedules`.

        Nothing of those that follow what was not measured.
        """
        found = [measured.get(each.follows or "") for each in self.all_schedules]
        return tuple(
            reduction if value is None else each.measured(reduction, value)
            for each, reduction, value in zip(self.all_schedules, before, found, strict=True)
        )

    @property
    def all_schedules(self) -> tuple[Schedule, ...]:
        """`schedule`, and those of paths."""
        return (self.schedule, *self.schedules.values())

    @property
    def is_steady(self) -> bool:
        """Whether all rates are the same in every step."""
        return all(each.is_steady for each in self.all_schedules)

    def _rate_by(self, schedule: Schedule, step: int, run: RunLength) -> float:
        k = self.accumulate
        if k > 1:
            run = RunLength(max(1, run.steps // k), Ratio(run.steps_per_epoch, k))
        return self.optimizer.lr * schedule.at(step // k, run)

    @property
    def memory_bytes(self) -> int | None:
        """The bytes of `memory`; `None` where it is not given."""
        return None if self.memory is None else parsed_bytes(self.memory)

    @property
    def best_metric(self) -> BestMetric:
        """What the best weights are chosen by."""
        return best_metric(self.best)


MEANINGS = {
    "data": "a file of examples, a glob of several, or the name of an embedded data set",
    "validation": "what is held out: a file, or a share such as 0.1 of the examples",
    "sampling_weights": "a tensor that says how often each example is drawn, with replacement",
    "workers": "processes that decode images and sounds; 0 decodes where it trains",
    "balance": "an integer tensor of classes, of which each is drawn as often as the others",
    "epochs": "how often the training goes through all examples; 0 writes the initial weights",
    "steps": "how many steps a run has, in place of epochs",
    "steps_per_epoch": "how many batches make an epoch, where that is not all examples",
    "optimizer": "the rule that moves the parameters, such as adam",
    "schedule": "how the learning rate changes, such as cosine",
    "seed": "the start of everything random",
    "shuffle": "whether each epoch draws the examples in a new order",
    "clip_norm": "the largest norm all gradients together may have",
    "clip_value": "the largest absolute value an element of a gradient may have",
    "gradient_norm": "whether the norm of all gradients, before clipping, is a metric",
    "accumulate": "how many batches make an update, by the mean of their gradients",
    "ema": "the decay of an average of the weights, which evaluation and saved weights use",
    "not_finite": "what a gradient that is not finite does: stop, skip the update, or ignore",
    "best": "the metric that the best weights are chosen by, such as highest accuracy",
    "stop_after": "evaluations without a better one after which a run ends",
    "drop_last": "whether an epoch leaves out the examples that do not fill a last batch",
    "log_every": "steps between two lines of the log; 0 logs no steps",
    "log": "logs of other tools that a run keeps too: tensorboard, wandb",
    "eval_every": "epochs between two evaluations on the held-out examples",
    "save_every": "epochs between two checkpoints",
    "device": "what it runs on, as `meganeura devices` lists it, or auto",
    "devices": "how many devices of the backend `xla` share each batch, on all hosts together",
    "sharding": "what each of them holds: data, all parameters; fsdp, a share of them",
    "precision": "the floats of products: f32, or on `xla` tf32 or bf16",
    "memory": "what a run may take of the device, such as 8GiB: scans recompute rounds to fit",
    "optimize": "whether the graph of a step is rewritten to run faster",
    "disabled_rules": "rewrite rules that are not applied",
}
"""What each setting is, in a line.

`sizes` and `tensors` are not among them: every size goes by its own name, and tensors are part of
`data = file("x.npz", image="images")`.
"""
