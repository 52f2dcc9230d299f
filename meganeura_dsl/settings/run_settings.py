"""The settings of a training run: what may be written under `run:`, and the judging of it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from meganeura_dsl.diagnostics.problem import Problem, ProblemsError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.values import Invocation, Static
from meganeura_dsl.settings.device_names import ANY_DEVICE, DeviceNames
from meganeura_dsl.settings.setting_values import DEFAULT_CHOICES, FILE, RawSettings, with_overrides
from meganeura_dsl.settings.settings_problems import (
    ImpossibleSetting,
    MissingSetting,
    ReservedSize,
    UnknownChoice,
    UnknownSetting,
    UnnamedArgument,
    WrongSettingType,
)


class Strict(BaseModel):
    """Nothing is converted, nothing unknown is kept, nothing is infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Fraction = Annotated[float, Field(ge=0, lt=1)]


class Sgd(Strict):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    lr: PositiveFloat = 0.01
    momentum: Fraction = 0.0
    nesterov: bool = False
    weight_decay: NonNegativeFloat = 0.0

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> "Sgd":
        if self.nesterov and self.momentum == 0:
            raise ValueError("needs momentum above 0")
        return self


class Adam(Strict):
    """Adam (Kingma and Ba, 2015); weight decay is added to the gradient."""

    kind: Literal["adam"] = "adam"
    lr: PositiveFloat = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.0


class AdamW(Strict):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019)."""

    kind: Literal["adamw"] = "adamw"
    lr: PositiveFloat = 1e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.01


class Constant(Strict):
    """The learning rate of the optimizer, after `warmup` steps of a linear rise to it."""

    kind: Literal["constant"] = "constant"
    warmup: NonNegativeInt = 0


class Cosine(Strict):
    """After the rise, half a cosine down to `final` times the learning rate."""

    kind: Literal["cosine"] = "cosine"
    warmup: NonNegativeInt = 0
    final: Annotated[float, Field(ge=0, le=1)] = 0.0


class Linear(Strict):
    """After the rise, a straight line down to `final` times the learning rate."""

    kind: Literal["linear"] = "linear"
    warmup: NonNegativeInt = 0
    final: Annotated[float, Field(ge=0, le=1)] = 0.0


Optimizer = Sgd | Adam | AdamW
Schedule = Constant | Cosine | Linear


def _device(name: str, given: ValidationInfo) -> str:
    """The name of a device, as far as who validates the settings knows them."""
    context: object = given.context
    names = context if isinstance(context, DeviceNames) else ANY_DEVICE
    if not names.accepts(name):
        raise ValueError(f"must be {names.listed()}")
    return name


class RunSettings(Strict):
    """Everything a training run needs to know besides the program."""

    data: str = Field(min_length=1)
    tensors: dict[str, str] = Field(default_factory=dict[str, str])
    """For inputs whose tensors have other names in the data, these names."""
    sizes: dict[str, PositiveInt]
    epochs: NonNegativeInt = 1
    optimizer: Annotated[Optimizer, Field(discriminator="kind")]
    schedule: Annotated[Schedule, Field(discriminator="kind")]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    shuffle: bool = True
    drop_last: bool = True
    clip_norm: PositiveFloat | None = None
    log_every: NonNegativeInt = 50
    eval_every: PositiveInt = 1
    save_every: PositiveInt = 1
    device: Annotated[str, AfterValidator(_device)] = "auto"
    optimize: bool = True
    disabled_rules: list[str] = Field(default_factory=list[str])


MEANINGS = {
    "data": "a file of examples, or the name of an embedded data set",
    "epochs": "how often the training goes through all examples; 0 writes the initial weights",
    "optimizer": "the rule that moves the parameters: sgd, adam or adamw",
    "schedule": "how the learning rate changes: constant, cosine or linear",
    "seed": "the start of everything random",
    "shuffle": "whether each epoch draws the examples in a new order",
    "clip_norm": "the largest norm all gradients together may have",
    "drop_last": "whether an epoch leaves out the examples that do not fill a last batch",
    "log_every": "steps between two lines of the log; 0 logs no steps",
    "eval_every": "epochs between two evaluations on the held-out examples",
    "save_every": "epochs between two checkpoints",
    "device": "what it runs on, as `meganeura devices` lists it, or auto",
    "optimize": "whether the graph of a step is rewritten to run faster",
    "disabled_rules": "rewrite rules that are not applied",
}
"""What each setting is, in a line.

`sizes` and `tensors` are not among them: every size goes by its own name, and tensors are part of
`data = file("x.npz", image="images")`.
"""


def resolve_settings(
    raw: RawSettings, overrides: Sequence[str], free_dims: Sequence[str], devices: DeviceNames
) -> RunSettings:
    """The settings of a run; raises `ProblemsError` with everything that is wrong at once."""
    written = with_overrides(raw, overrides)
    problems = [*_name_problems(written, free_dims), *_file_problems(written)]
    if any(isinstance(each, WrongSettingType) for each in problems):
        raise ProblemsError(tuple(problems))
    known = {name: each for name, each in written.items() if name in {*MEANINGS, *free_dims}}
    try:
        settings = RunSettings.model_validate(_as_fields(known, free_dims), context=devices)
    except ValidationError as error:
        problems += [_problem(each, written) for each in error.errors(include_url=False)]
        raise ProblemsError(tuple(problems)) from None
    if problems:
        raise ProblemsError(tuple(problems))
    return settings


def _name_problems(written: RawSettings, free_dims: Sequence[str]) -> list[Problem]:
    """Names that are unknown, missing or taken."""
    known = (*free_dims, *MEANINGS)
    place = next(iter(written.values())).span if written else None
    return [
        *(
            UnknownSetting(setting.span, name, "", known)
            for name, setting in written.items()
            if name not in known
        ),
        *(
            MissingSetting(name, "a size that the inputs leave open", f"{name} = 64", place)
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
            and setting.value.name != FILE
        ),
    ]


def _file_problems(written: RawSettings) -> list[Problem]:
    """A `file(...)` that is not one text without a name, and texts with names."""
    setting = written.get("data")
    if setting is None or not _is_file(setting.value):
        return []
    path, tensors = data_of(setting.value)
    if isinstance(path, str) and all(isinstance(each, str) for each in tensors.values()):
        return []
    expected = 'a file and names of its tensors, such as file("x.npz", image="images")'
    return [WrongSettingType(setting.span, "data", expected, setting.span.text.partition("=")[2])]


def _is_file(value: Static) -> bool:
    return isinstance(value, Invocation) and value.name == FILE


def data_of(value: Static) -> tuple[Static | None, Mapping[str, Static]]:
    """The path that a `data` setting names, if it is one text, and the tensors it renames."""
    if not isinstance(value, Invocation) or value.name != FILE:
        return value, {}
    return (value.positional[0] if len(value.positional) == 1 else None), value.arguments


def _as_fields(known: RawSettings, free_dims: Sequence[str]) -> dict[str, object]:
    """The settings in the shape of `RunSettings`: free sizes together, choices as records."""
    given = {name: _plain(setting.value) for name, setting in known.items()}
    if "data" in known and "data" not in free_dims and _is_file(known["data"].value):
        path, tensors = data_of(known["data"].value)
        given |= {"data": path, "tensors": dict(tensors)}
    choices = {name: {"kind": choice} for name, choice in DEFAULT_CHOICES.items()}
    sizes = {name: given.pop(name) for name in free_dims if name in given}
    return {**choices, **given, "sizes": sizes}


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
    "list_type": "a list",
    "model_attributes_type": "a choice",
    "model_type": "a choice",
}
"""Kinds of values, by pydantic's name for the error of not being one."""

RULES = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be finite",
    "string_too_short": "must not be empty",
    "value_error": "{error}",
}
"""Rules a value can break, by pydantic's name for the error."""


def _problem(error: ErrorDetails, written: RawSettings) -> Problem:
    """One of pydantic's errors as a problem with its place."""
    kind, given = error["type"], error["input"]
    path = [str(part) for part in error["loc"]]
    setting = path[1] if path[0] == "sizes" else path[0]
    if kind == "missing":
        return MissingSetting(setting, MEANINGS[setting], f'{setting} = "digits"', _first(written))
    span = written[setting].span
    name = _shown_name(path)
    context = error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            arguments = _arguments(setting, path[1])
            return UnknownSetting(span, path[-1], path[1], arguments)
        case "union_tag_invalid":
            return UnknownChoice(span, setting, str(context["tag"]), _choices(setting))
        case "union_tag_not_found" | "model_attributes_type":
            expected = f"one of {', '.join(_choices(setting))}"
            return WrongSettingType(span, name, expected, _shown(given))
        case _ if kind in EXPECTED:
            return WrongSettingType(span, name, EXPECTED[kind], _shown(given))
        case _:
            rule = RULES[kind].format(**{key: _shown(each) for key, each in context.items()})
            return ImpossibleSetting(span, name, rule, _shown(given))


def _first(written: RawSettings) -> Span | None:
    return next((setting.span for setting in written.values()), None)


def _shown_name(path: Sequence[str]) -> str:
    """`optimizer.lr` for the path `optimizer adam lr`, `batch` for `sizes batch`."""
    return ".".join(path[1:] if path[0] == "sizes" else (path[0], *path[2:]))


def _choices(setting: str) -> tuple[str, ...]:
    return tuple(CHOICES[setting])


def _arguments(setting: str, choice: str) -> tuple[str, ...]:
    fields = CHOICES[setting][choice].model_fields
    return tuple(name for name in fields if name != "kind")


CHOICES: Mapping[str, Mapping[str, type[Strict]]] = {
    "optimizer": {"sgd": Sgd, "adam": Adam, "adamw": AdamW},
    "schedule": {"constant": Constant, "cosine": Cosine, "linear": Linear},
}
"""The words a setting chooses among, and what takes their arguments."""


def _shown(value: object) -> str:
    """A value as one writes it in a .mgn file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case {"kind": str(word)}:
            return f"the word `{word}`"
        case None:
            return "none"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
