"""Settings that choose by a word, such as `optimizer = adam(lr=1e-3)`: validation and pages.

Words, arguments, defaults and bounds are those of the classes of the optimizers and schedules.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from inspect import cleandoc
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from meganeura_dsl.settings.value_text import shown_value
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Optimizer
from meganeura_dsl.transforms.optimizers.schedules import SCHEDULES, Schedule

CHOICES: Mapping[str, Mapping[str, type[Choice]]] = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
}
"""The settings that choose by a word, and the classes that the words name."""

BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
"""Words for bounds, by pydantic's names for them."""


class Strict(BaseModel):
    """Nothing is converted, nothing unknown is kept, nothing is infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@cache
def _arguments_of(choice: type[Choice]) -> type[Strict]:
    """Returns a model that validates the arguments of a choice."""
    types = get_type_hints(choice, include_extras=True)
    judged: dict[str, Any] = {
        each.name: (types[each.name], each.default) for each in fields(choice)
    }
    return create_model(choice.__name__, __base__=Strict, **judged)


def _chosen(setting: str, value: object) -> Choice:
    """The choice that a record `{"kind": word, argument: value, ...}` describes."""
    choices = CHOICES[setting]
    match value:
        case Choice() if type(value) in choices.values():
            return value
        case {"kind": str(word)} if word in choices:
            record = cast("Mapping[str, object]", value)
            given = {name: each for name, each in record.items() if name != "kind"}
            return choices[word](**dict(_arguments_of(choices[word]).model_validate(given)))
        case {"kind": str(word)}:
            raise PydanticCustomError("unknown_choice", "there is no `{word}`", {"word": word})
        case _:
            raise PydanticCustomError("no_choice", "a choice is due")


def _record(choice: Choice) -> dict[str, object]:
    return {"kind": choice.word, **asdict(choice)}


OptimizerChoice = Annotated[
    Optimizer, PlainValidator(partial(_chosen, "optimizer")), PlainSerializer(_record)
]
ScheduleChoice = Annotated[
    Schedule, PlainValidator(partial(_chosen, "schedule")), PlainSerializer(_record)
]


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
    """Returns the page of an optimizer or a schedule; `None` if it is neither."""
    for setting, choices in CHOICES.items():
        if word in choices:
            choice = choices[word]
            listed = arguments(choice)
            call = ", ".join(f"{each.name}={each.default}" for each in listed)
            width = max(12, *(len(each.name) for each in listed)) + 2
            lines = [f"  {each.name:<{width}}{each.values}" for each in listed]
            page = cleandoc(choice.__doc__ or "")
            return "\n".join((f"{setting} = {word}({call})", "", page, "", *lines))
    return None
