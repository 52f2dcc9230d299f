"""Resolves the text under `run:` to the settings of a run, or to all of its problems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from meganeura_dsl.diagnostics.problem import Problem, ProblemsError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.written_settings import (
    FROZEN,
    WrittenSetting,
    setting_key,
)
from meganeura_dsl.elaborate.values import Invocation, StaticValue
from meganeura_dsl.plugins.plugin_problems import PluginError
from meganeura_dsl.settings.choices import KIND, PLUGINS, choice_of, choice_words
from meganeura_dsl.settings.data_calls import DATA_CALLS, FILE, TABLE
from meganeura_dsl.settings.device_names import DeviceNames
from meganeura_dsl.settings.run_settings import FIELDS_BY_PATH, SETTINGS, RunSettings
from meganeura_dsl.settings.setting_values import (
    DEFAULT_CHOICES,
    NONE,
    OVERRIDE,
    RawSettings,
    choice_of_all,
    paths_of,
    with_overrides,
)
from meganeura_dsl.settings.settings_context import NONE_DECLARED, Declared, SettingsContext
from meganeura_dsl.settings.settings_problems import (
    ImpossibleSetting,
    MissingArgument,
    MissingSetting,
    NoPaths,
    ReservedSize,
    TwoLengths,
    UnknownChoice,
    UnknownSetting,
    UnnamedArgument,
    WrongSettingType,
)
from meganeura_dsl.settings.value_cures import share_cure, value_cure
from meganeura_dsl.settings.value_text import shown_value
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice

BY_PATH = tuple(FIELDS_BY_PATH.values())
"""The settings that may be for some paths, such as `optimizer["*.bias"]`."""


def resolve_settings(
    raw: RawSettings,
    overrides: Sequence[str],
    free_dims: Sequence[str],
    devices: DeviceNames,
    *,
    needs_data: bool = False,
    declared: Declared = NONE_DECLARED,
) -> RunSettings:
    """The settings of a run; raises `ProblemsError` with everything that is wrong at once.

    `needs_data` says that a run reads its examples itself, so that `data` may not be missing.
    `declared` has the optimizers of the program.
    """
    written = _of_one_length(with_overrides(raw, overrides, declared), free_dims)
    try:
        return _resolved(written, free_dims, devices, declared, needs_data=needs_data)
    except PluginError as error:
        raise ProblemsError((_at_its_place(error, written),)) from error


def _at_its_place(error: PluginError, written: RawSettings) -> Problem:
    """Returns the problem of a plugin at the setting that asks for it."""
    name = error.failure.name
    asked = (
        each.span
        for each in written.values()
        if isinstance(each.value, Invocation) and each.value.name == name
    )
    return replace(error.failure, span=next(asked, None))


def _resolved(
    written: RawSettings,
    free_dims: Sequence[str],
    devices: DeviceNames,
    declared: Declared,
    *,
    needs_data: bool,
) -> RunSettings:
    problems = [*_name_problems(written, free_dims), *_data_problems(written)]
    if needs_data and "data" not in written:
        span, data = _first(written), SETTINGS["data"]
        problems.append(MissingSetting("data", data.meaning, f"data = {data.example}", span))
    if len(_lengths(written, free_dims)) == 2:
        problems.append(TwoLengths(written["steps"].span))
    if _data_problems(written):
        raise ProblemsError(tuple(problems))
    known = {
        name: each
        for name, each in written.items()
        if name in {*SETTINGS, *free_dims}
        or (paths_of(name)[0] in BY_PATH and paths_of(name)[1] is not None)
    }
    try:
        context = SettingsContext(declared, devices)
        settings = RunSettings.model_validate(_as_fields(known, free_dims), context=context)
    except ValidationError as error:
        problems += [_problem(each, written, declared) for each in error.errors(include_url=False)]
        raise ProblemsError(tuple(problems)) from None
    if problems:
        raise ProblemsError(tuple(problems))
    return settings


def _of_one_length(written: RawSettings, free_dims: Sequence[str]) -> RawSettings:
    """The settings where a length from the command line replaces the one of the program."""
    both = _lengths(written, free_dims)
    given = [name for name in both if written[name].span.source.name == OVERRIDE]
    if len(given) == 1:
        return {name: each for name, each in written.items() if name in given or name not in both}
    return written


def _lengths(written: RawSettings, free_dims: Sequence[str]) -> list[str]:
    """The settings that say how long a run is; `none`, or a size of such a name, does not."""
    return [
        name
        for name in ("epochs", "steps")
        if name in written and name not in free_dims and not _is_none(written[name].value)
    ]


def _is_none(value: StaticValue) -> bool:
    return isinstance(value, Invocation) and value.name == NONE and not value.arguments


def _name_problems(written: RawSettings, free_dims: Sequence[str]) -> list[Problem]:
    """Names that are unknown, missing or taken."""
    known = (*free_dims, *SETTINGS)
    given = tuple(name for name in known if name in written)
    span = next(iter(written.values())).span if written else None
    keys = [(*paths_of(key), setting.span) for key, setting in written.items()]
    return [
        *(
            UnknownSetting(span, name, "", known, given)
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
            if name in written and name in SETTINGS
        ),
        *(
            UnnamedArgument(setting.span)
            for setting in written.values()
            if isinstance(setting.value, Invocation)
            and setting.value.positional
            and setting.value.name not in DATA_CALLS
        ),
        *_taken_arguments(written),
    ]


def _taken_arguments(written: RawSettings) -> Iterator[Problem]:
    """Arguments with the name that records have for the word of a choice."""
    for key, setting in written.items():
        name, _ = paths_of(key)
        match setting.value:
            case Invocation(name=word, arguments=arguments) if (
                name in PLUGINS and KIND in arguments
            ):
                choice = choice_of(name, word)
                if choice is not None:
                    yield UnknownSetting(setting.span, KIND, word, _names_of(choice))
            case _:
                pass


def _names_of(choice: type[Choice]) -> tuple[str, ...]:
    """The names of the arguments of a choice."""
    return tuple(each.name for each in fields(choice))


def _data_problems(written: RawSettings) -> list[Problem]:
    """A call that names data by anything but one text without a name, or has wrong arguments."""
    setting = written.get("data")
    if setting is None or not isinstance(setting.value, Invocation):
        return []
    word, (path, arguments) = setting.value.name, data_of(setting.value)
    if word not in DATA_CALLS:
        if choice_of("data", word) is not None:
            return []
        return [UnknownChoice(setting.span, "way to read data", word, choice_words("data"))]
    known = DATA_CALLS[word].arguments
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


def _wrong_call(setting: WrittenSetting) -> WrongSettingType:
    word = setting.value.name if isinstance(setting.value, Invocation) else FILE
    wanted = (
        "a file and names of its tensors" if word == FILE else "a path in quotes, and more by name"
    )
    expected = f"{wanted}, such as {DATA_CALLS[word].example}"
    return WrongSettingType(setting.span, "data", expected, setting.span.text.partition("=")[2])


def _listed(value: StaticValue, word: str) -> Sequence[StaticValue]:
    """The columns of a table, of which one need not be in a list."""
    return value if isinstance(value, list) and word == TABLE else [value]


def data_of(value: StaticValue) -> tuple[StaticValue | None, Mapping[str, StaticValue]]:
    """The path that a `data` setting names, if it is one text, and what else the call says."""
    if not isinstance(value, Invocation):
        return value, {}
    return (value.positional[0] if len(value.positional) == 1 else None), value.arguments


def _data_fields(value: StaticValue) -> dict[str, object]:
    """Returns the parts of `data` as fields of `RunSettings`."""
    if not isinstance(value, Invocation):
        return {"data": value}
    path, arguments = data_of(value)
    match value.name:
        case "file":
            return {"data": path, "tensors": dict(arguments)}
        case "table":
            columns = {name: _listed(each, TABLE) for name, each in arguments.items()}
            return {"data": path, "reading": {"columns": columns}}
        case word if word in DATA_CALLS:
            return {"data": path, "reading": dict(arguments)}
        case word:
            shown = ", ".join(f"{name}={shown_value(each)}" for name, each in arguments.items())
            return {"data": f"{word}({shown})", "source": _plain(value)}


def _as_fields(known: RawSettings, free_dims: Sequence[str]) -> dict[str, object]:
    """The settings in the shape of `RunSettings`: free sizes together, choices as records."""
    given = {
        name: _plain(setting.value) for name, setting in known.items() if paths_of(name)[1] is None
    }
    if "data" in known and "data" not in free_dims:
        given |= _data_fields(known["data"].value)
    choices = {name: {KIND: choice} for name, choice in DEFAULT_CHOICES.items()}
    sizes = {name: given.pop(name) for name in free_dims if name in given}
    return {**choices, **given, "sizes": sizes, **_by_path(known)}


def _by_path(known: RawSettings) -> dict[str, object]:
    """The settings that are for paths, by their globs."""
    return {field: _for_paths(known, name) for field, name in FIELDS_BY_PATH.items()}


def _for_paths(known: RawSettings, name: str) -> dict[str, object]:
    """The values of one setting for paths, by their globs."""
    if name in DEFAULT_CHOICES:
        return _choices(known, name)
    keys = {key: paths_of(key) for key in known}
    return {
        glob: _plain(known[key].value)
        for key, (found, glob) in keys.items()
        if glob is not None and found == name
    }


def _choices(known: RawSettings, choice: str) -> dict[str, object]:
    """The choices for paths; what one leaves out is as in that of all, for the same word."""
    common = choice_of_all(known, choice)
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


def _plain(value: StaticValue) -> object:
    match value:
        case Invocation(name=word) if word == NONE and not value.arguments:
            return None
        case Invocation(name=name, arguments=arguments):
            return {**{key: _plain(each) for key, each in arguments.items()}, KIND: name}
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


def _problem(error: ErrorDetails, written: RawSettings, declared: Declared) -> Problem:
    """One of pydantic's errors as a problem with its place."""
    kind, given = error["type"], error["input"]
    path = [str(part) for part in error["loc"]]
    setting = {"sizes": path[-1], "reading": "data", "source": "data"}.get(path[0], path[0])
    if setting in FIELDS_BY_PATH:
        setting = FIELDS_BY_PATH[setting]
        path = [setting_key(setting, path[1]), *path[2:]]
    key = path[0] if path[0] in written else setting
    span = written[key].span
    name = _shown_name(path)
    context = error.get("ctx", {})
    part = ["data", *path[1:]] if path[0] in ("reading", "source") else path
    cure = share_cure(path, given, _updates(written), span)
    cure = cure or value_cure(path[1:] if path[0] == "sizes" else part, given, kind, span)
    match kind:
        case "extra_forbidden":
            word = _word(setting, key, written)
            choice = choice_of(setting, word, declared)
            known = () if choice is None else _names_of(choice)
            return UnknownSetting(span, path[-1], word, known)
        case "missing":
            return MissingArgument(span, _word(setting, key, written), path[-1])
        case "unknown_choice":
            return UnknownChoice(
                span, setting, str(context["word"]), choice_words(setting, declared)
            )
        case "no_choice":
            expected = f"one of {', '.join(choice_words(setting, declared))}"
            return WrongSettingType(span, name, expected, shown_value(given), cure)
        case "enum" | "literal_error":
            choices = str(context["expected"]).replace("'", "" if kind == "enum" else '"')
            return ImpossibleSetting(span, name, f"must be {choices}", shown_value(given), cure)
        case _ if kind in EXPECTED:
            is_whole = isinstance(given, float) and given.is_integer()
            shown = f"{given:.1f}" if is_whole else shown_value(given)
            return WrongSettingType(span, name, EXPECTED[kind], shown, cure)
        case _:
            rule = RULES[kind].format(**{key: shown_value(each) for key, each in context.items()})
            return ImpossibleSetting(span, name, rule, shown_value(given), cure)


def _updates(written: RawSettings) -> int | None:
    """Returns the updates of a run; `None` where that depends on the examples."""
    numbers = {
        name: each.value
        for name, each in written.items()
        if isinstance(each.value, int) and not isinstance(each.value, bool) and each.value > 0
    }
    steps = numbers.get("steps")
    if steps is None and {"epochs", "steps_per_epoch"} <= numbers.keys():
        steps = numbers["epochs"] * numbers["steps_per_epoch"]
    return None if steps is None else max(1, steps // numbers.get("accumulate", 1))


def _first(written: RawSettings) -> Span | None:
    return next((setting.span for setting in written.values()), None)


def _shown_name(path: Sequence[str]) -> str:
    """`optimizer.lr` for the path `optimizer lr`, `batch` for `sizes batch`."""
    if path[0] in ("sizes", "reading", "source"):
        return ".".join(path[1:]) or "data"
    return ".".join(path)


def _word(setting: str, key: str, written: RawSettings) -> str:
    """The word that a setting was given, or has by default."""
    match written[key].value:
        case Invocation(name=word):
            return word
        case _:
            return DEFAULT_CHOICES[setting]
