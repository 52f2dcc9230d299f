"""The settings of a training run: what may be written under `run:`, and the judging of it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from meganeura_dsl.diagnostics.problem import Problem, ProblemsError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.training_blocks import FROZEN, Setting, setting_key
from meganeura_dsl.elaborate.values import Invocation, Static
from meganeura_dsl.settings.best_metric import BestMetric, best_metric
from meganeura_dsl.settings.choices import CHOICES, OptimizerChoice, ScheduleChoice, Strict
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_names import ANY_DEVICE, DeviceNames
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.setting_values import (
    DEFAULT_CHOICES,
    FILE,
    OVERRIDE,
    READERS,
    TABLE,
    RawSettings,
    paths_of,
    shown_value,
    with_overrides,
)
from meganeura_dsl.settings.settings_problems import (
    ImpossibleSetting,
    MissingSetting,
    NoPaths,
    ReservedSize,
    TwoLengths,
    UnknownChoice,
    UnknownSetting,
    UnnamedArgument,
    WrongSettingType,
)
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
    best: Annotated[str, AfterValidator(_best)] = "lowest loss"
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
        """What an evaluation makes of the reductions of `all_schedules`."""
        return tuple(
            reduction if each.follows is None else each.measured(reduction, measured[each.follows])
            for each, reduction in zip(self.all_schedules, before, strict=True)
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
            run = RunLength(max(1, run.steps // k), max(1, run.steps_per_epoch // k))
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


EVERY = "every"
"""The setting of how many steps parameters wait, which is always for some paths."""
FIELDS_BY_PATH = {"optimizers": "optimizer", "intervals": EVERY, "schedules": "schedule"}
"""The fields of settings for paths, and how these are written."""
BY_PATH = tuple(FIELDS_BY_PATH.values())


def resolve_settings(
    raw: RawSettings,
    overrides: Sequence[str],
    free_dims: Sequence[str],
    devices: DeviceNames,
    *,
    needs_data: bool = True,
) -> RunSettings:
    """The settings of a run; raises `ProblemsError` with everything that is wrong at once."""
    written = _of_one_length(with_overrides(raw, overrides), free_dims)
    problems = [*_name_problems(written, free_dims), *_data_problems(written)]
    if needs_data and "data" not in written:
        span = _first(written)
        problems.append(MissingSetting("data", MEANINGS["data"], 'data = "digits"', span))
    if "steps" in written and "epochs" in written and "steps" not in free_dims:
        problems.append(TwoLengths(written["steps"].span))
    if _data_problems(written):
        raise ProblemsError(tuple(problems))
    known = {
        name: each
        for name, each in written.items()
        if name in {*MEANINGS, *free_dims}
        or (paths_of(name)[0] in BY_PATH and paths_of(name)[1] is not None)
    }
    try:
        settings = RunSettings.model_validate(_as_fields(known, free_dims), context=devices)
    except ValidationError as error:
        problems += [_problem(each, written) for each in error.errors(include_url=False)]
        raise ProblemsError(tuple(problems)) from None
    if problems:
        raise ProblemsError(tuple(problems))
    return settings


def _of_one_length(written: RawSettings, free_dims: Sequence[str]) -> RawSettings:
    """The settings where a length from the command line replaces the one of the program."""
    both = [name for name in ("epochs", "steps") if name in written and name not in free_dims]
    given = [name for name in both if written[name].span.source.name == OVERRIDE]
    if len(both) == 2 and len(given) == 1:
        return {name: each for name, each in written.items() if name in given or name not in both}
    return written


def _name_problems(written: RawSettings, free_dims: Sequence[str]) -> list[Problem]:
    """Names that are unknown, missing or taken."""
    known = (*free_dims, *MEANINGS)
    span = next(iter(written.values())).span if written else None
    keys = [(*paths_of(key), setting.span) for key, setting in written.items()]
    return [
        *(
            UnknownSetting(span, name, "", known, tuple(written))
            for name, glob, span in keys
            if name not in known and (glob is None or name not in BY_PATH)
        ),
        *(
            NoPaths(span, name)
            for name, glob, span in keys
            if glob is not None and name in known and name not in BY_PATH
        ),
        *(
            MissingSetting(name, "a size that the inputs leave open", f"{name} = 64", span)
            for name in free_dims
            if name not in written
        ),
        *(
            ReservedSize(written[name].span, name)
            for name in free_dims
            if name in written and name in MEANINGS
        ),
        *(
            UnnamedArgument(setting.span)
            for setting in written.values()
            if isinstance(setting.value, Invocation)
            and setting.value.positional
            and setting.value.name not in READERS
        ),
    ]


def _data_problems(written: RawSettings) -> list[Problem]:
    """A call that names data by anything but one text without a name, or has wrong arguments."""
    setting = written.get("data")
    if setting is None or not isinstance(setting.value, Invocation):
        return []
    word, (path, arguments) = setting.value.name, data_of(setting.value)
    if word not in READERS:
        return [UnknownChoice(setting.span, "way to read data", word, tuple(READERS))]
    known = READERS[word]
    if known is not None:
        unknown = [name for name in arguments if name not in known]
        return [
            *(UnknownSetting(setting.span, name, word, known) for name in unknown),
            *([] if isinstance(path, str) else [_wrong_call(setting)]),
        ]
    texts = [text for each in arguments.values() for text in _listed(each, word)]
    if isinstance(path, str) and all(isinstance(each, str) for each in texts):
        return []
    return [_wrong_call(setting)]


def _wrong_call(setting: Setting) -> WrongSettingType:
    expected = 'a file and names of its tensors, such as file("x.npz", image="images")'
    if isinstance(setting.value, Invocation) and setting.value.name != FILE:
        expected = f"""a path in quotes, and more by name, such as {EXAMPLES[setting.value.name]}"""
    return WrongSettingType(setting.span, "data", expected, setting.span.text.partition("=")[2])


def _listed(value: Static, word: str) -> Sequence[Static]:
    """The columns of a table, of which one need not be in a list."""
    return value if isinstance(value, list) and word == TABLE else [value]


def data_of(value: Static) -> tuple[Static | None, Mapping[str, Static]]:
    """The path that a `data` setting names, if it is one text, and what else the call says."""
    if not isinstance(value, Invocation):
        return value, {}
    return (value.positional[0] if len(value.positional) == 1 else None), value.arguments


def _data_fields(value: Static) -> dict[str, object]:
    """What `data` says, in the shape of `RunSettings`."""
    if not isinstance(value, Invocation):
        return {"data": value}
    path, arguments = data_of(value)
    match value.name:
        case "file":
            return {"data": path, "tensors": dict(arguments)}
        case "table":
            columns = {name: _listed(each, TABLE) for name, each in arguments.items()}
            return {"data": path, "reading": {"columns": columns}}
        case _:
            return {"data": path, "reading": dict(arguments)}


def _as_fields(known: RawSettings, free_dims: Sequence[str]) -> dict[str, object]:
    """The settings in the shape of `RunSettings`: free sizes together, choices as records."""
    given = {
        name: _plain(setting.value) for name, setting in known.items() if paths_of(name)[1] is None
    }
    if "data" in known and "data" not in free_dims:
        given |= _data_fields(known["data"].value)
    choices = {name: {"kind": choice} for name, choice in DEFAULT_CHOICES.items()}
    sizes = {name: given.pop(name) for name in free_dims if name in given}
    return {**choices, **given, "sizes": sizes, **_by_path(known)}


def _by_path(known: RawSettings) -> dict[str, object]:
    """The settings that are for paths, by their globs."""
    intervals = {
        glob: _plain(setting.value)
        for key, setting in known.items()
        for name, glob in [paths_of(key)]
        if glob is not None and name == EVERY
    }
    return {
        "optimizers": _choices(known, "optimizer"),
        "intervals": intervals,
        "schedules": _choices(known, "schedule"),
    }


def _choices(known: RawSettings, choice: str) -> dict[str, object]:
    """The choices for paths; what one leaves out is as in that of all, for the same word."""
    whole = known[choice].value if choice in known else None
    common = whole if isinstance(whole, Invocation) else Invocation(DEFAULT_CHOICES[choice], {})
    found: dict[str, object] = {}
    for name, setting in known.items():
        setting_name, glob = paths_of(name)
        if glob is None or setting_name != choice:
            continue
        value = setting.value
        if choice == "optimizer" and value == Invocation(FROZEN, {}):
            found[glob] = None
        elif isinstance(value, Invocation) and value.name == common.name:
            found[glob] = _plain(Invocation(value.name, {**common.arguments, **value.arguments}))
        else:
            found[glob] = _plain(value)
    return found


def _plain(value: Static) -> object:
    match value:
        case Invocation(name="none") if not value.arguments:
            return None
        case Invocation(name=name, arguments=arguments):
            return {**{key: _plain(each) for key, each in arguments.items()}, "kind": name}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value


# --- what pydantic found, in our words -----------------------------------------------------------

EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "no_validation": "a file in quotes, or a share such as 0.1",
    "list_type": "a list",
    "tuple_type": "a list",
}
"""Kinds of values, by pydantic's name for the error of not being one."""

RULES = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be finite",
    "string_too_short": "must not be empty",
    "too_short": "must have at least {min_length} numbers",
    "too_long": "must have at most {max_length} numbers",
    "value_error": "{error}",
}
"""Rules a value can break, by pydantic's name for the error."""


def _problem(error: ErrorDetails, written: RawSettings) -> Problem:
    """One of pydantic's errors as a problem with its place."""
    kind, given = error["type"], error["input"]
    path = [str(part) for part in error["loc"]]
    setting = {"sizes": path[-1], "reading": "data"}.get(path[0], path[0])
    if setting in FIELDS_BY_PATH:
        setting = FIELDS_BY_PATH[setting]
        path = [setting_key(setting, path[1]), *path[2:]]
    key = path[0] if path[0] in written else setting
    if kind == "missing":
        return MissingSetting(setting, MEANINGS[setting], f'{setting} = "digits"', _first(written))
    span = written[key].span
    name = _shown_name(path)
    context = error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            choice = _word(setting, key, written)
            arguments = tuple(each.name for each in fields(CHOICES[setting][choice]))
            return UnknownSetting(span, path[-1], choice, arguments)
        case "unknown_choice":
            return UnknownChoice(span, setting, str(context["word"]), tuple(CHOICES[setting]))
        case "no_choice":
            expected = f"one of {', '.join(CHOICES[setting])}"
            return WrongSettingType(span, name, expected, shown_value(given))
        case "enum" | "literal_error":
            choices = str(context["expected"]).replace("'", "" if kind == "enum" else '"')
            return ImpossibleSetting(span, name, f"must be {choices}", shown_value(given))
        case _ if kind in EXPECTED:
            return WrongSettingType(span, name, EXPECTED[kind], shown_value(given))
        case _:
            rule = RULES[kind].format(**{key: shown_value(each) for key, each in context.items()})
            return ImpossibleSetting(span, name, rule, shown_value(given))


def _first(written: RawSettings) -> Span | None:
    return next((setting.span for setting in written.values()), None)


def _shown_name(path: Sequence[str]) -> str:
    """`optimizer.lr` for the path `optimizer lr`, `batch` for `sizes batch`."""
    return ".".join(path[1:] if path[0] in ("sizes", "reading") else path)


def _word(setting: str, key: str, written: RawSettings) -> str:
    """The word that a setting was given, or has by default."""
    match written[key].value:
        case Invocation(name=word):
            return word
        case _:
            return DEFAULT_CHOICES[setting]
