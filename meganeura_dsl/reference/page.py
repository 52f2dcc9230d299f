"""A page of the reference as data, and the parts of it that can be asked for."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A name of the language, such as a function or a setting, with all there is to say of it."""

    name: str
    text: str
    """Markdown."""


@dataclass(frozen=True)
class Page:
    """One page: what `meganeura docs NAME` prints."""

    name: str
    title: str
    summary: str
    """The page in half a line, for the table of contents."""
    text: str
    """Markdown, beginning with the title."""
    entries: tuple[Entry, ...] = ()

    def sections(self) -> tuple[Entry, ...]:
        """The parts below the headings of first and second level, each by its heading."""
        opening, *parts = f"\n{self.text}".split("\n## ")
        below = (Entry(part.partition("\n")[0], f"## {part}".rstrip()) for part in parts)
        return Entry(self.title, opening.strip()), *below


def in_list(entries: Iterable[Entry]) -> str:
    """Returns a list with a line for each entry."""
    return "\n".join(f"- {entry.text}" for entry in entries)
