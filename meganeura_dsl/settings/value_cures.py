"""Cures of values that settings do not take: the line with the value that was meant."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.setting_problems import KEPT_ANYWAY, KEPT_LOGS
from meganeura_dsl.settings.choices import choice_words
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_names import gpu_words
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.run_settings import SETTINGS
from meganeura_dsl.settings.settings_problems import OVERRIDE
from meganeura_dsl.settings.value_text import shown_value

_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_CALL = re.compile(r"(?P<word>[^\W\d]\w*)\s*(?P<arguments>\(.*\))?", re.DOTALL)
_WANTED = {
    "int_type": int,
    "int_from_float": int,
    "float_type": float,
    "bool_type": bool,
    "list_type": list,
    "tuple_type": list,
    "string_type": str,
}
"""Types of settings, by pydantic's name for the error of not being one."""
_PRECISIONS: Mapping[str, ComputePrecision] = {
    name: precision
    for precision, names in {
        ComputePrecision.F32: "32 fp32 float float32 single full 32-true",
        ComputePrecision.TF32: "tensorfloat32",
        ComputePrecision.F16: "16 fp16 float16 half 16-mixed mixed_float16 16-true",
        ComputePrecision.BF16: "bfloat16 bf16-mixed mixed_bfloat16 bf16-true",
    }.items()
    for name in names.split()
}
"""Names of floats in PyTorch, Lightning, Keras and JAX."""


def value_cure(path: Sequence[str], given: object, kind: str, span: Span) -> Help | None:
    """Returns the cure of a value that is refused, with the value that was meant.

    `path` is the key of the setting and, of a part of it, the name of the part; `kind` is
    pydantic's name of the error. A value that only looks wrong has an example of the setting as
    cure, where it has one; a bound that a number breaks has none.
    """
    name = path[0].partition("[")[0]
    if name == "device" and isinstance(given, str) and (words := gpu_words(given)):
        return Help(words, _line(path, '"wgpu"', span))
    if name == "log" and (cure := _log_cure(given, span)):
        return cure
    if given == 0 and kind.startswith("greater_than") and name in SETTINGS and len(path) == 1:
        return _of_zero(name, span)
    if (value := _meant(name, given, kind)) is not None:
        return Help("write it so", _line(path, value, span))
    if kind in _WANTED and len(path) == 1 and name in SETTINGS:
        return Help("it is for example", _line(path, SETTINGS[name].example, span))
    return None


def share_cure(path: Sequence[str], given: object, updates: int | None, span: Span) -> Help | None:
    """Returns the cure of a share of the run where an argument of a schedule counts steps.

    `updates` are those of the run; `None` where the settings do not say them.
    """
    is_count = path[0].partition("[")[0] == "schedule" and path[-1] in ("warmup", "steps")
    if not is_count or not isinstance(given, float) or not 0 < given < 1:
        return None
    name, share = path[-1], shown_value(given)
    if updates is None:
        return Help(
            f"`{name}` counts steps, a whole number: {share} of the run are\n"
            f"{share} times its epochs times the batches of an epoch"
        )
    value = str(max(1, round(given * updates)))
    return Help(f"`{name}` counts steps: {share} of {updates} is", _line(path, value, span))


def _of_zero(name: str, span: Span) -> Help | None:
    """Returns the cure of a 0 by which a setting is switched off elsewhere."""
    if name == "steps":
        return Help("to write the initial weights alone", _line([name], "0", span, "epochs"))
    return Help("leave it out to go without") if SETTINGS[name].default is None else None


def _log_cure(given: object, span: Span) -> Help | None:
    """Returns the cure of a log that is no list, or that each run keeps anyway."""
    is_list = isinstance(given, list)
    words = cast("list[object]", given) if is_list else [_word(given)]
    if words and all(word in KEPT_LOGS for word in words):
        return KEPT_ANYWAY
    known = [str(word) for word in words if word in {*LogFormat}]
    if is_list or not known:
        return None
    return Help("write it so", _line(["log"], shown_value(known), span))


def _word(given: object) -> object:
    """Returns the word of a choice without arguments, and any other value as it is."""
    match given:
        case {"kind": str(word)} if len(cast("Mapping[str, object]", given)) == 1:
            return word
        case _:
            return given


def _meant(name: str, given: object, kind: str) -> str | None:
    """Returns the text of the value that was meant; `None` if that is not known."""
    if kind == "no_choice":
        return _choice(name, given)
    if name == "precision":
        return _quoted(_PRECISIONS.get(str(given).lower()))
    wanted, value = _WANTED.get(kind), _word(given)
    if wanted is None or (isinstance(value, bool) and wanted is not list):
        return None
    if wanted in (int, float) and isinstance(value, str) and _NUMBER.fullmatch(value):
        if wanted is float:
            return value
        value = float(value)
    match value:
        case float() if wanted is int and value.is_integer():
            return str(int(value))
        case "true" | "false" | "True" | "False" if wanted is bool:
            return str(value).lower()
        case 0 | 1 if wanted is bool:
            return shown_value(bool(value))
        case str() if name == "disabled_rules":
            return shown_value([value])
        case _:
            return None


def _choice(name: str, given: object) -> str | None:
    """Returns the call that a text, or the rate of an optimizer, stands for."""
    if isinstance(given, int | float) and not isinstance(given, bool) and name == "optimizer":
        return f"adam(lr={shown_value(given)})" if given > 0 else None
    found = _CALL.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None or found["word"].lower() not in choice_words(name):
        return None
    return f"{found['word'].lower()}{found['arguments'] or '()'}"


def _quoted(value: str | None) -> str | None:
    return None if value is None else f'"{value}"'


def _line(path: Sequence[str], value: str, span: Span, setting: str = "") -> str:
    """Returns a setting with its value, in the form in which the setting was given."""
    key, *parts = [setting] if setting else path
    if span.source.name != OVERRIDE:
        return f"{parts[-1]}={value}" if parts else f"{key} = {value}"
    bare = value.removesuffix("()").strip('"')
    takes_bare = value[-1] == ")" or (key in SETTINGS and SETTINGS[key].is_bare)
    is_bare = takes_bare and re.fullmatch(r"[\w.:-]+", bare)
    shown = f"{'.'.join([key, *parts])}={bare if is_bare else value}"
    return f"--set {shown}" if re.fullmatch(r"[\w.:=+-]+", shown) else f"--set '{shown}'"
