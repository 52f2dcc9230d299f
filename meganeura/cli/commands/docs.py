"""`meganeura docs`: guides, language reference and sources, which the installed package carries."""

from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura.cli.ui.pager import show_page
from meganeura_dsl.diagnostics.plain_table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meganeura_dsl.reference.lookup import Mention
    from meganeura_dsl.reference.page import Page

HOW_TO_ASK = """\
meganeura docs NAME    one of these pages, or a code such as E0301
                       the source of a model, a layer or a block, such as gpt2 or conv2d
                       a function, a setting, a name of another system, or any word"""


def docs(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]",
            help="A guide or a page, a code such as E0301, a model, a layer, a function, or any "
            "words; all pages without one.",
        ),
    ] = None,
) -> None:
    """Show the guides, the language reference, the sources of models and layers, or any word."""
    from meganeura_dsl.diagnostics.message_pages import message_page
    from meganeura_dsl.reference.lookup import look_up, nearest, page_of

    if words is None:
        say(_contents())
        return
    word = _name(" ".join(words))
    page, answer = page_of(word), look_up(word)
    parts = [entry.text for entry in answer.entries]
    if page is not None:
        parts.append(page.text.rstrip())
    elif not parts and len(answer.mentions) == 1:
        (found,) = answer.mentions
        parts.append(f"{found.section.text}\n\nThis is of the page `{found.page}`.")
    elif answer.mentions:
        parts.append(_listed(answer.mentions))
    text = message_page(word.upper()) or "\n\n".join(parts)
    if not text:
        close = ", ".join(f"`{each}`" for each in nearest(word))
        hint = f"; is it {close}?" if close else "; `meganeura docs` lists what there is"
        raise typer.BadParameter(f"nothing is said about `{word}`{hint}", param_hint="NAME")
    show_page(text)


def _name(asked: str) -> str:
    """Returns what is asked for; of the path of a page or a program, its name."""
    path = PurePath(asked)
    return path.stem if path.suffix in {".md", ".mgn"} else asked


def _contents() -> str:
    """Returns the table of contents."""
    from meganeura_dsl.reference.lookup import reference
    from meganeura_dsl.reference.written import guides

    parts = (("Guides", guides()), ("The language", reference()))
    width = max(len(page.name) for _, pages in parts for page in pages)
    listed = (f"{heading}\n\n{_rows(pages, width)}" for heading, pages in parts)
    return "\n\n".join((*listed, HOW_TO_ASK))


def _rows(pages: "Sequence[Page]", width: int) -> str:
    rows = [(page.name.ljust(width), f"{page.title}: {page.summary}") for page in pages]
    return table(rows)


def _listed(mentions: "Sequence[Mention]") -> str:
    """Returns the sections that mention a word, a line for each page and rank."""
    rows = [
        f"- page `{page}`: {'; '.join(each.section.name for each in sections)}"
        for page, sections in groupby(mentions, lambda each: each.page)
    ]
    return "Mentioned in\n\n" + "\n".join(rows)
