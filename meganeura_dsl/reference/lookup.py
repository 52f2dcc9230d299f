"""Finds what the reference says about a word."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from textwrap import indent

from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.reference.generated import generated_pages
from meganeura_dsl.reference.library import source_names, sources_of
from meganeura_dsl.reference.page import Entry, Page
from meganeura_dsl.reference.written import guides, language_pages


@dataclass(frozen=True)
class Mention:
    """A part of a page that mentions a word."""

    page: str
    section: Entry


@dataclass(frozen=True)
class Answer:
    """The answer of the reference to a word; empty if no page mentions it."""

    entries: tuple[Entry, ...]
    """Entries of the word."""
    mentions: tuple[Mention, ...]
    """Other occurrences; those first that have it in their heading."""


@cache
def reference() -> tuple[Page, ...]:
    """Returns the pages of the language, in the order of the table of contents."""
    return (*language_pages(), *generated_pages())


@cache
def pages() -> tuple[Page, ...]:
    """Returns all pages: the guides, and those of the language."""
    return (*guides(), *reference())


def page_of(name: str) -> Page | None:
    """Returns the page of a name, in upper or lower case."""
    return next((page for page in pages() if page.name == name.lower()), None)


def entries_of(word: str) -> tuple[Entry, ...]:
    """Returns what functions and settings are called so, in upper or lower case."""
    wanted = word.lower()
    return tuple(
        each for page in reference() for each in page.entries if each.name.lower() == wanted
    )


def look_up(word: str) -> Answer:
    """Returns what there is about a word or a phrase, in upper or lower case.

    Of a phrase that is nowhere, the sections are found that have all its words.
    """
    wanted = " ".join(word.split())
    entries = (*sources_of(wanted), *entries_of(wanted), *_of_other_systems(wanted.lower()))
    return Answer(entries, _mentions([wanted]) or _mentions(wanted.split()))


def _mentions(words: Sequence[str]) -> tuple[Mention, ...]:
    """Returns the sections that have all the words; those first that have them in their headings.

    The guides come before the pages of the language. A word is the same with hyphens and without.
    """
    lower = [plain for each in words if (plain := _unhyphened(each))]
    occur = [re.compile(rf"(?<!\w){re.escape(each)}(?!\w)") for each in lower]

    def has_all(text: str) -> bool:
        """Returns True for a text as it is compared that has all words; most lack one at all."""
        return (
            bool(lower)
            and all(each in text for each in lower)
            and all(each.search(text) for each in occur)
        )

    found = [mention for mention, text in _sections() if has_all(text)]
    found.sort(key=lambda each: not has_all(_compared(each.section.name)))
    return tuple(found)


@cache
def _sections() -> tuple[tuple[Mention, str], ...]:
    """Returns all sections of written pages, each with its text as words are compared."""
    return tuple(
        (Mention(page.name, section), _compared(section.text))
        for page in (*guides(), *language_pages())
        for section in page.sections()
    )


def _unhyphened(text: str) -> str:
    """Returns a text in lower case without hyphens: `fine-tune` as `finetune`."""
    return text.lower().replace("-", "")


def _compared(text: str) -> str:
    """Returns a text in lower case, with its hyphens and without: words have parts, too."""
    return f"{text.lower()}\n{_unhyphened(text)}"


def _of_other_systems(wanted: str) -> list[Entry]:
    """Returns entries for a name of another system, in lower case."""
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
    """Returns names of pages, entries and sources that are spelled much like a word."""
    names = {page.name for page in pages()} | source_names()
    names |= {each.name for page in pages() for each in page.entries}
    lower = {name.lower(): name for name in sorted(names)}  # `gpt2` rather than `Gpt2`
    return tuple(lower[each] for each in get_close_matches(word.lower(), sorted(lower), n=3))
