"""The pages that people write: those of the specification, without the marks of its test suite."""

import re
from pathlib import Path

from meganeura_dsl.diagnostics.message_pages import without_marks
from meganeura_dsl.reference.page import Page
from meganeura_dsl.resources import reference_pages

_CONTENTS = re.compile(
    r"^\d+\. \[(?P<title>.+?)\]\((?P<name>\w+)\.md\): (?P<summary>.+)$", re.MULTILINE
)


def written_pages() -> tuple[Page, ...]:
    """The pages in the order of the table of contents."""
    folder = reference_pages()
    contents = (folder / "README.md").read_text(encoding="utf-8")
    return tuple(
        Page(found["name"], found["title"], found["summary"], _text(folder / f"{found['name']}.md"))
        for found in _CONTENTS.finditer(contents)
    )


def _text(path: Path) -> str:
    return without_marks(path.read_text(encoding="utf-8"))
