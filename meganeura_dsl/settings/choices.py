"""Settings that choose by a word, such as `optimizer = adam(lr=1e-3)`: validation and pages.

Words, arguments, defaults and bounds are those of the classes of the optimizers and schedules, of
this package and of others (plugins).
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache, partial
from inspect import cleandoc, isabstract
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    create_model,
)
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from meganeura_dsl.plugins.plugin_groups import (
    WORD,
    PluginGroup,
    blamed,
    package_of,
    plugin_behind,
    told,
)
from meganeura_dsl.plugins.plugin_problems import PluginError, PluginFailure, UnfitPluginError
from meganeura_dsl.settings.data_calls import DATA_CALLS
from meganeura_dsl.settings.data_source import DataSource
from meganeura_dsl.settings.settings_context import NONE_DECLARED, Declared, declared_of
from meganeura_dsl.settings.value_text import shown_value
from meganeura_dsl.syntax.parser.compiled_grammar import RESERVED
from meganeura_dsl.transforms.optimizers.declared import DeclaredOptimizer
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Optimizer
from meganeura_dsl.transforms.optimizers.schedules import SCHEDULES, Schedule

OPTIMIZER = "optimizer"
"""The setting that a program's own optimizers are named by."""

CHOICES: Mapping[str, Mapping[str, type[Choice]]] = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
}
"""The settings that choose by a word, and the built-in classes that the words name."""

BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
"""Words for bounds, by pydantic's names for them."""


class Strict(BaseModel):
    """Base of settings: they convert nothing, and refuse unknown fields and infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@cache
def _arguments_of(choice: type[Choice]) -> type[Strict]:
    """Returns a model that validates the arguments of a choice."""
    types = get_type_hints(choice, include_extras=True)
    judged: dict[str, Any] = {
        each.name: (types[each.name], ... if each.default is MISSING else each.default)
        for each in fields(choice)
    }
    return create_model(choice.__name__, __base__=Strict, **judged)


# --- plugins -------------------------------------------------------------------------------------

KIND = "kind"
"""The key of the word of a choice, in its record."""
FROM = "from"
"""The key of the package of a plugin, in the record of a choice: a keyword, so no argument."""

_PLAIN = (bool, int, float, str)


def _checked(base: type[Choice], name: str, loaded: object) -> type[Choice]:
    """Returns a class that documents and validation can read, or raises `UnfitPluginError`."""
    if not isinstance(loaded, type) or not issubclass(loaded, base):
        raise UnfitPluginError(f"is no class that derives from `{base.__name__}`")
    if isabstract(loaded):
        names: Collection[str] = vars(loaded)["__abstractmethods__"]
        missing = ", ".join(f"`{each}`" for each in sorted(names))
        raise UnfitPluginError(f"has no {missing}")
    if "__dataclass_fields__" not in vars(loaded):
        raise UnfitPluginError("is no dataclass: `@dataclass(frozen=True)` is missing above it")
    if getattr(loaded, "word", None) != name:
        raise UnfitPluginError(f"has another `word` than its entry point, which is `{name}`")
    try:
        types = get_type_hints(loaded, include_extras=True)
        for each in fields(loaded):
            _require_plain(each.name, types[each.name])
            if each.default is MISSING:
                raise UnfitPluginError(f"has no default for `{each.name}`")
        _arguments_of(loaded)
    except (NameError, PydanticUserError) as error:
        raise UnfitPluginError(f"has arguments of types that are unknown: {told(error)}") from None
    return loaded


def _require_plain(name: str, annotation: object) -> None:
    """Raise `UnfitPluginError` for an argument that no program can write, or of a taken name."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if name == KIND or (get_origin(kind) is not Literal and kind not in _PLAIN):
        reason = "another type than bool, int, float, str, Literal or tuple[float, ...]"
        taken = "a name that is taken"
        raise UnfitPluginError(f"has an argument `{name}` of {taken if name == KIND else reason}")


WORDS = re.compile(
    rf"(?!(?:{'|'.join(map(re.escape, (*RESERVED, 'none', 'frozen')))})\Z){WORD.pattern}"
)
"""Pattern of the words that a setting can choose by: names that mean nothing else there."""

PLUGINS: Mapping[str, PluginGroup[type[Choice]]] = {
    setting: PluginGroup(kind, group, built_in, partial(_checked, base), WORDS)
    for setting, kind, group, built_in, base in (
        ("optimizer", "optimizer", "optimizers", OPTIMIZERS, Optimizer),
        ("schedule", "schedule", "schedules", SCHEDULES, Schedule),
        ("data", "source of data", "data", DATA_CALLS, DataSource),
    )
}
"""The settings that choose by a word, and the classes of other packages."""


def is_data_word(word: str) -> bool:
    """Returns True if a word names a way to read data, built in or of a plugin."""
    return word in DATA_CALLS or (word.isidentifier() and bool(PLUGINS["data"].owner(word)))


def choice_of(setting: str, word: str, declared: Declared = NONE_DECLARED) -> type[Choice] | None:
    """Returns the class of a word, built in, declared or of a plugin; `None` if there is none.

    Raises `PluginError` for a plugin that cannot be used.
    """
    if setting == OPTIMIZER and word in declared:
        return declared[word]
    group = PLUGINS[setting]
    return CHOICES.get(setting, {}).get(word) if word in group.built_in else group.find(word)


def choice_words(setting: str, declared: Declared = NONE_DECLARED) -> tuple[str, ...]:
    """The words of a setting: those declared in the program, those built in, those of plugins."""
    own = declared if setting == OPTIMIZER else NONE_DECLARED
    return tuple(dict.fromkeys((*own, *PLUGINS[setting].built_in, *PLUGINS[setting].names())))


def _chosen(setting: str, value: object, given: ValidationInfo) -> Choice:
    """The choice that a record `{"kind": word, argument: value, ...}` describes."""
    declared = declared_of(given.context)
    match value:
        case DeclaredOptimizer():
            return value
        case Choice() if type(value) in CHOICES.get(setting, {}).values() or plugin_behind(value):
            return value
        case {"kind": str(word)}:
            record = cast("Mapping[str, object]", value)
            choice = choice_of(setting, word, declared)
            _require_same(setting, word, choice, record.get(FROM))
            if choice is None:
                raise PydanticCustomError("unknown_choice", "there is no `{word}`", {"word": word})
            said = {name: each for name, each in record.items() if name not in (KIND, FROM)}
            arguments = dict(_arguments_of(choice).model_validate(said))
            with blamed(choice, f"for {arguments}", passing=ValueError):
                return choice(**arguments)
        case _:
            raise PydanticCustomError("no_choice", "a choice is due")


def _require_same(setting: str, word: str, choice: type[Choice] | None, owner: object) -> None:
    """Raise `PluginError` unless a word means what it meant when the record was written."""
    now = None if choice is None else plugin_behind(choice)
    if not isinstance(owner, str) or (
        now is not None and package_of(now.owner) == package_of(owner)
    ):
        return
    reason = "it is not installed"
    if choice is not None:
        reason = f"`{word}` is now {f'of `{now.owner}`' if now else 'built in, and may differ'}"
    cure = f"pip install {package_of(owner)}" if choice is None else "begin a new run"
    raise PluginError(PluginFailure(PLUGINS[setting].kind, word, (owner,), reason, cure))


def _record(choice: Choice) -> dict[str, object]:
    plugin = plugin_behind(choice)
    owner = {} if plugin is None else {FROM: plugin.owner}
    return {KIND: choice.word, **owner, **asdict(choice)}


def _validator(setting: str) -> Callable[[object, ValidationInfo], Choice]:
    """Returns the validator of a setting that chooses by a word."""

    def validated(value: object, given: ValidationInfo) -> Choice:
        return _chosen(setting, value, given)

    return validated


OptimizerChoice = Annotated[
    Optimizer, PlainValidator(_validator("optimizer")), PlainSerializer(_record)
]
ScheduleChoice = Annotated[
    Schedule, PlainValidator(_validator("schedule")), PlainSerializer(_record)
]
SourceChoice = Annotated[DataSource, PlainValidator(_validator("data")), PlainSerializer(_record)]


# --- pages ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """One argument of a choice, as it is documented."""

    name: str
    default: str
    values: str
    """The values it may have: `at least 0, below 1`."""


def arguments(choice: type[Choice]) -> tuple[Argument, ...]:
    """The arguments of a choice, in the order of its fields."""
    types = get_type_hints(choice, include_extras=True)
    return tuple(
        Argument(each.name, shown_value(each.default), _values(types[each.name]))
        for each in fields(choice)
    )


def _values(annotation: object) -> str:
    """The kind and the bounds of a type such as `Annotated[float, Field(gt=0)]`."""
    if get_origin(annotation) is Literal:
        return " or ".join(map(shown_value, get_args(annotation)))
    kind, *about = cast("tuple[object, ...]", get_args(annotation) or (annotation,))
    if get_origin(kind) is tuple:
        return f"a list of numbers, {_values(get_args(kind)[0])}"
    bounds = [each for field in about if isinstance(field, FieldInfo) for each in field.metadata]
    words = [
        f"{word} {shown_value(getattr(bound, name))}"
        for bound in bounds
        for name, word in BOUNDS.items()
        if hasattr(bound, name)
    ]
    kinds: Mapping[object, str] = {
        bool: "true or false",
        int: "a whole number",
        str: "a text",
    }
    return ", ".join([*([kinds[kind]] if kind in kinds else []), *words])


def choice_page(word: str) -> str | None:
    """Returns the page of an optimizer, a schedule or a source of data; `None` if it is neither.

    Raises `PluginError` for that of a package which cannot be used.
    """
    for setting in PLUGINS:
        if (choice := choice_of(setting, word)) is not None:
            listed = arguments(choice)
            call = ", ".join(f"{each.name}={each.default}" for each in listed)
            width = max(12, *(len(each.name) for each in listed)) + 2
            lines = [f"  {each.name:<{width}}{each.values}" for each in listed]
            page = cleandoc(choice.__doc__ or "")
            if (
                owner := PLUGINS[setting].owner(word)
                if word not in CHOICES.get(setting, {})
                else ""
            ):
                page = f"{page}\n\nIt is of the package `{owner}`."
            return "\n".join((f"{setting} = {word}({call})", "", page, "", *lines))
    return None
