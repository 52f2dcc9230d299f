"""Finds what the reference says about a word."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from textwrap import indent

from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.reference.generated import generated_pages
from meganeura_dsl.reference.page import Entry, Page
from meganeura_dsl.reference.written import written_pages


@dataclass(frozen=True)
class Mention:
    """A part of a page that mentions a word."""

    page: str
    section: Entry


@dataclass(frozen=True)
class Answer:
    """What the reference says about a word; with neither, it says nothing."""

    entries: tuple[Entry, ...]
    """What the word names."""
    mentions: tuple[Mention, ...]
    """Where else it occurs; those first that have it in their heading."""


@cache
def pages() -> tuple[Page, ...]:
    """All pages, in the order of the table of contents."""
    return (*written_pages(), *generated_pages())


def page_of(name: str) -> Page | None:
    """The page of a name, in upper or lower case."""
    return next((page for page in pages() if page.name == name.lower()), None)


def look_up(word: str) -> Answer:
    """What there is about a word or a phrase, in upper or lower case."""
    wanted = " ".join(word.split()).lower()
    entries = [each for page in pages() for each in page.entries if each.name.lower() == wanted]
    entries += _of_other_systems(wanted)
    occurs = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)", re.IGNORECASE)
    found = [
        Mention(page.name, section)
        for page in written_pages()
        for section in page.sections()
        if wanted and occurs.search(section.text)
    ]
    found.sort(key=lambda each: occurs.search(each.section.name) is None)
    return Answer(tuple(entries), tuple(found))


def _of_other_systems(wanted: str) -> list[Entry]:
    """What a name of another system, in lower case, is called here."""
    return [
        Entry(name, f"`{name}` is a name of other systems: {_told(answer.help())}")
        for name, answer in other_names().items()
        if name.lower() == wanted
    ]


def _told(advice: Help) -> str:
    return (
        advice.text if advice.code is None else f"{advice.text}\n\n{indent(advice.code, ' ' * 4)}"
    )


def nearest(word: str) -> tuple[str, ...]:
    """Names of pages and entries that are spelled much like a word."""
    names = {page.name for page in pages()} | {
        each.name for page in pages() for each in page.entries
    }
    return tuple(get_close_matches(word, sorted(names), n=3))
