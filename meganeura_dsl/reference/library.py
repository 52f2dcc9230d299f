"""The standard library: its pages, and the sources of its programs, blocks and formulas."""

import re
from collections.abc import Iterator
from functools import cache

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.reference.page import Entry, Page
from meganeura_dsl.resources import standard_model_names, standard_models
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.statements import is_formula
from meganeura_dsl.syntax.parser.parser import Outline, outline, parse_declaration
from meganeura_dsl.syntax.parser.source_files import read_source

KNOWN = ("nn", "loss")
"""The standard modules whose blocks are known without an import."""

PROGRAMS = """\
# Programs of the standard library

Each file with its models. `meganeura docs gpt2` shows the file of a model, `meganeura docs Gpt2` a
block of it. Any file of yours may import from them: `from gpt2 import Gpt2`."""

_HEAD = re.compile(r"^(?:def|block|optimizer|model|train|expect|from)\b", re.MULTILINE)


def layers_page() -> Page:
    """Returns the page of the blocks that are known without an import, with their signatures."""
    text = ["# Layers\n\nBlocks of the standard library. They are known without an import."]
    for module in KNOWN:
        parsed = (parse_declaration(each)[0] for each in outline(_source(module)))
        blocks = [node for node in parsed if isinstance(node, ast.Block)]
        lines = "\n\n".join(comment_above(block.span) + signature_of(block) for block in blocks)
        text.append(f"## `{module}.mgn`\n\n{_program(lines)}")
    return Page(
        "layers",
        "Layers",
        "the blocks of the standard library, losses included",
        "\n\n".join(text),
    )


def programs_page() -> Page:
    """Returns the page of the programs: what `meganeura check NAME` takes."""
    text = [PROGRAMS]
    for module in standard_model_names():
        models = [each for each in outline(_source(module)) if each.kind == "model"]
        if models:
            lines = "\n".join(_text_of(each) for each in models)
            text.append(f"## `{module}.mgn`\n\n{_program(lines)}")
    return Page(
        "programs",
        "Programs of the standard library",
        "each file with its models",
        "\n\n".join(text),
    )


def comment_above(span: Span) -> str:
    """Returns the comment lines directly above a declaration."""
    source, lines = span.source, list[str]()
    number = span.line - 1
    while number > 0 and source.line(number).startswith("# "):
        lines.insert(0, f"{source.line(number)}\n")
        number -= 1
    return "".join(lines)


def signature_of(block: ast.Block | ast.Optimizer) -> str:
    """Returns the text of a block or an optimizer up to its body."""
    last = (block.name, *block.inputs, *(block.results or ()), *block.where)[-1].span.end
    source = block.span.source
    end = source.text.index("=" if is_formula(block) else ":", last)
    return source.text[block.span.start : end].rstrip()


# --- sources --------------------------------------------------------------------------------------


def sources_of(name: str) -> tuple[Entry, ...]:
    """Returns the source of what the library calls by a name, in upper or lower case.

    Of a file or a model it is the file; of a block or a formula it is that, each under its path. A
    name that is spelled exactly so stands for nothing else.
    """
    wanted = name.strip().lower()
    found = [(each, entry) for each, entry in _sources() if each.lower() == wanted]
    exact = [(each, entry) for each, entry in found if each == name.strip()]
    entries = {entry.text: entry for _, entry in exact or found}
    return tuple(entries.values())


def source_names() -> frozenset[str]:
    """Returns the names of files, models, blocks and formulas of the library."""
    return frozenset(name for name, _ in _sources())


@cache
def _sources() -> tuple[tuple[str, Entry], ...]:
    return tuple(each for module in standard_model_names() for each in _of_module(module))


def _of_module(module: str) -> Iterator[tuple[str, Entry]]:
    source = _source(module)
    path = standard_models() / f"{module}.mgn"
    whole = Entry(module, f"`{path}`:\n\n{_program(source.text)}")
    yield module, whole
    for each in outline(source):
        if each.kind == "model" and each.name:
            yield each.name, whole
        elif each.kind in {"block", "optimizer", "def"} and each.name:
            span = _declared_at(each)
            text = (
                f"`{path}`, line {span.line}:\n\n{_program(comment_above(span) + _text_of(each))}"
            )
            yield each.name, Entry(each.name, text)


def _declared_at(each: Outline) -> Span:
    """Returns where a declaration begins, below the comments that may precede it."""
    head = _HEAD.search(each.span.text)
    start = each.span.start + (head.start() if head else 0)
    return Span(each.span.source, start, each.span.end)


def _text_of(each: Outline) -> str:
    """Returns the text of a declaration without the comment of the next."""
    lines = _declared_at(each).text.splitlines()
    while lines and (not lines[-1] or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines)


def _source(module: str) -> Source:
    return read_source(standard_models() / f"{module}.mgn")


def _program(text: str) -> str:
    return f"```mgn\n{text.strip()}\n```"
