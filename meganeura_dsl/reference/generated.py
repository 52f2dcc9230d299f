"""The pages that are made from the code: functions, layers, settings and the grammar.

Each reads the table that the compiler itself reads, so that none can be out of date.
"""

from collections.abc import Iterable
from inspect import cleandoc
from typing import TypeVar

from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.reference.page import Entry, Page
from meganeura_dsl.resources import grammar, standard_model_names, standard_models
from meganeura_dsl.settings.choices import CHOICES, arguments
from meganeura_dsl.settings.run_settings import SETTINGS, RunSettings
from meganeura_dsl.settings.setting import Setting
from meganeura_dsl.settings.value_text import shown_value
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.statements import is_formula
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice

Kind = TypeVar("Kind", bound=ast.Declaration)

LIBRARY = ("nn", "loss")
"""The standard modules whose blocks are known without an import."""

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
    return functions_page(), layers_page(), models_page(), settings_page(), grammar_page()


def functions_page() -> Page:
    """The built-in functions."""
    entries = tuple(
        Entry(name, f"`{each.signature}`: {each.meaning}") for name, each in BUILTINS.items()
    )
    return Page(
        "functions",
        "Functions",
        "what is built in; everything else is written in the language",
        f"{FUNCTIONS}\n\n{_listed(entries)}",
        entries,
    )


# --- blocks of the standard library --------------------------------------------------------------


def layers_page() -> Page:
    """The blocks of the standard library, with their signatures."""
    text = ["# Layers\n\nBlocks of the standard library. They are known without an import."]
    entries: list[Entry] = []
    for module in LIBRARY:
        blocks = _declared(module, ast.Block)
        lines = "\n\n".join(comment_above(block) + signature_of(block) for block in blocks)
        text.append(f"## `{module}.mgn`\n\n{_program(lines)}")
        for block in blocks:
            program = _program(comment_above(block) + block.span.text)
            entries.append(Entry(block.name.text, f"A block of `{module}.mgn`:\n\n{program}"))
    return Page(
        "layers",
        "Layers",
        "the blocks of the standard library, losses included",
        "\n\n".join(text),
        tuple(entries),
    )


def models_page() -> Page:
    """The standard models: what `meganeura check NAME` takes."""
    text = [
        "# Standard models\n\nPrograms that ship with the compiler. Any file imports from them."
    ]
    entries: list[Entry] = []
    for module in standard_model_names():
        models = _declared(module, ast.Model)
        if models:
            lines = "\n".join(model.span.text.strip() for model in models)
            text.append(f"## `{module}.mgn`\n\n{_program(lines)}")
        for model in models:
            entry = f"{_program(model.span.text)}\n\nA standard model, in `{module}.mgn`."
            entries.append(Entry(model.name.text, entry))
    return Page(
        "models",
        "Standard models",
        "the programs that ship with the compiler",
        "\n\n".join(text),
        tuple(entries),
    )


def _declared(module: str, kind: type[Kind]) -> list[Kind]:
    """The declarations of one kind in a standard module."""
    source = read_source(standard_models() / f"{module}.mgn")
    parsed = (parse_declaration(found)[0] for found in outline(source))
    return [node for node in parsed if isinstance(node, kind)]


def comment_above(node: ast.Declaration) -> str:
    """The comment lines directly above a declaration."""
    source, lines = node.span.source, list[str]()
    number = node.span.line - 1
    while number > 0 and source.line(number).startswith("# "):
        lines.insert(0, f"{source.line(number)}\n")
        number -= 1
    return "".join(lines)


def signature_of(block: ast.Block) -> str:
    """The text of a block up to its body."""
    last = (block.name, *block.inputs, *(block.results or ()), *block.where)[-1].span.end
    source = block.span.source
    end = source.text.index("=" if is_formula(block) else ":", last)
    return source.text[block.span.start : end].rstrip()


# --- settings and grammar ------------------------------------------------------------------------


def settings_page() -> Page:
    """What stands under `run:`, and the arguments of each choice."""
    entries = [
        Entry(name, f"{_with_default(name, setting)}: {setting.meaning}")
        for name, setting in SETTINGS.items()
    ]
    text = [
        SETTINGS_TEXT,
        _listed(entries),
    ]
    for setting, choices in CHOICES.items():
        chosen = [_choice(name, choice) for name, choice in choices.items()]
        text += [f"## `{setting}`", _listed(chosen)]
        entries += chosen
    return Page(
        "settings",
        "Settings of a run",
        "what may stand under `run:`, with defaults",
        "\n\n".join(text),
        tuple(entries),
    )


def _choice(name: str, choice: type[Choice]) -> Entry:
    given = ", ".join(f"{each.name}={each.default}" for each in arguments(choice))
    return Entry(name, f"`{name}({given})`: {cleandoc(choice.__doc__ or '')}")


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


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(f"- {entry.text}" for entry in entries)


def _program(text: str) -> str:
    return f"```mgn\n{text.strip()}\n```"
