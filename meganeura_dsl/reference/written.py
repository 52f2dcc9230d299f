"""The pages that people write: the guides, and those of the specification without its marks."""

import re
from collections.abc import Callable
from pathlib import Path

from meganeura_dsl.diagnostics.message_pages import without_links, without_marks
from meganeura_dsl.reference.page import Page
from meganeura_dsl.resources import guide_pages, reference_pages

_CONTENTS = re.compile(
    r"^\d+\. \[(?P<title>.+?)\]\((?P<name>\w+)\.md\): (?P<summary>.+)$", re.MULTILINE
)
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\(([\w./]+)\)")
_OF_CHECKOUT = re.compile(r"\[([^\[\]]+)\]\((?:[\w.]+/)+(?:\w+\.py|README\.md)\)")
"""Links to what the installed package does not carry."""
_WITHIN = re.compile(r"\[([^\[\]]+)\]\(#[\w-]+\)")


def language_pages() -> tuple[Page, ...]:
    """Returns the pages of the language in the order of their table of contents."""
    return _listed(reference_pages(), without_marks)


def guides() -> tuple[Page, ...]:
    """Returns the guides in the order of their table of contents."""
    return _listed(guide_pages(), _guide)


def _listed(folder: Path, readable: Callable[[str], str]) -> tuple[Page, ...]:
    contents = (folder / "README.md").read_text(encoding="utf-8")
    return tuple(
        Page(
            found["name"],
            found["title"],
            found["summary"],
            readable((folder / f"{found['name']}.md").read_text(encoding="utf-8")),
        )
        for found in _CONTENTS.finditer(contents)
    )


def _guide(text: str) -> str:
    """Returns a guide whose pictures and links can be read without the files that they name."""
    text = _PICTURE.sub(r"(picture: \1)", text)
    text = _OF_CHECKOUT.sub(r"\1", text)
    return without_links(_WITHIN.sub(r"\1", text))
