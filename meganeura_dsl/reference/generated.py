"""The pages that are made from the code: functions, settings and the grammar.

Each reads the table that the compiler itself reads, so that none can be out of date.
"""

from inspect import cleandoc

from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.reference.library import layers_page, programs_page
from meganeura_dsl.reference.page import Entry, Page, in_list
from meganeura_dsl.resources import grammar
from meganeura_dsl.settings.choices import CHOICES, PLUGINS, arguments
from meganeura_dsl.settings.run_settings import SETTINGS, RunSettings
from meganeura_dsl.settings.setting import Setting
from meganeura_dsl.settings.value_text import shown_value
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice

FUNCTIONS = """\
# Functions

These are built in. An axis is a number, counted from 0, or from the end with a minus; `axes...` may
also be a pattern, as in `sum(x, [n, c] -> [c])`."""

SETTINGS_TEXT = """\
# Settings of a run

What may stand under `run:`, or after `--set`, with its default; besides, each size that the inputs
leave open, by its name, such as `batch = 64`."""


def generated_pages() -> tuple[Page, ...]:
    """All of them."""
    return functions_page(), layers_page(), programs_page(), settings_page(), grammar_page()


def functions_page() -> Page:
    """The built-in functions."""
    entries = tuple(
        Entry(name, f"`{each.signature}`: {each.meaning}") for name, each in BUILTINS.items()
    )
    return Page(
        "functions",
        "Functions",
        "what is built in; everything else is written in the language",
        f"{FUNCTIONS}\n\n{in_list(entries)}",
        entries,
    )


# --- settings and grammar ------------------------------------------------------------------------


def settings_page() -> Page:
    """Returns the page of settings under `run:`, and of the arguments of each choice."""
    entries = [
        Entry(name, f"{_with_default(name, setting)}: {setting.meaning}")
        for name, setting in SETTINGS.items()
    ]
    text = [
        SETTINGS_TEXT,
        in_list(entries),
    ]
    for setting, group in PLUGINS.items():
        plugins, errors = group.usable()
        chosen = [_choice(name, choice) for name, choice in CHOICES.get(setting, {}).items()]
        chosen += [
            _choice(name, choice, f" Of the package `{group.owner(name)}`.")
            for name, choice in plugins.items()
        ]
        text += [f"## `{setting}`", in_list(chosen)] if chosen or errors else []
        text += [f"```text\n{error}\n```" for error in errors]
        entries += chosen
    return Page(
        "settings",
        "Settings of a run",
        "what may stand under `run:`, with defaults",
        "\n\n".join(text),
        tuple(entries),
    )


def _choice(name: str, choice: type[Choice], origin: str = "") -> Entry:
    given = ", ".join(f"{each.name}={each.default}" for each in arguments(choice))
    return Entry(name, f"`{name}({given})`: {cleandoc(choice.__doc__ or '')}{origin}")


def _with_default(name: str, setting: Setting) -> str:
    """A setting and its default, as they are written in a program."""
    if setting.default_choice:
        return f"`{name} = {setting.default_choice}`"
    if RunSettings.model_fields[name].is_required():
        return f"`{name}`, which is required"
    return f"`{name} = {shown_value(setting.default)}`"


def grammar_page() -> Page:
    """The grammar, word for word."""
    return Page(
        "grammar",
        "Grammar",
        "the whole syntax, as the parser reads it",
        f"# Grammar\n\n```lark\n{grammar().strip()}\n```",
    )
