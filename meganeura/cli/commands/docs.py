"""`meganeura docs`: the language reference, which the installed package carries."""

from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import say, table
from meganeura.cli.ui.pager import show_page

if TYPE_CHECKING:
    from meganeura_dsl.reference.lookup import Answer


def docs(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAGE|CODE|WORD]",
            help="A page, a code such as E0301, or any word; all pages without one.",
        ),
    ] = None,
) -> None:
    """Show the language reference, or what it says about a word."""
    from meganeura_dsl.diagnostics.message_pages import message_page
    from meganeura_dsl.reference.lookup import look_up, nearest, page_of

    if word is None:
        say(_contents())
        return
    page, answer = page_of(word), look_up(word)
    if page is not None:
        show_page("\n\n".join((page.text.rstrip(), *(entry.text for entry in answer.entries))))
        return
    text = message_page(word.upper()) or _answer(answer)
    if not text:
        close = ", ".join(nearest(word))
        hint = f"; the nearest is {close}" if close else ""
        raise typer.BadParameter(f"the reference says nothing about `{word}`{hint}")
    show_page(text)


def _contents() -> str:
    from meganeura_dsl.reference.lookup import pages

    rows = [(page.name, f"{page.title}: {page.summary}") for page in pages()]
    return f"{table(rows)}\n\nmeganeura docs PAGE, a code such as E0301, or any word"


def _answer(answer: "Answer") -> str:
    """Entries in full; a single section in full, several as a list."""
    parts = [entry.text for entry in answer.entries]
    sections = answer.mentions
    if not parts and len(sections) == 1:
        return sections[0].section.text
    if sections:
        rows = "\n".join(f"- page `{each.page}`: {each.section.name}" for each in sections)
        parts.append(f"Mentioned in\n\n{rows}")
    return "\n\n".join(parts)
