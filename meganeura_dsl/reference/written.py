"""The pages that people write: those of the specification, without the marks of its test suite."""

import re
from pathlib import Path

from meganeura_dsl.reference.page import Page
from meganeura_dsl.resources import reference_pages

_CONTENTS = re.compile(
    r"^\d+\. \[(?P<title>.+?)\]\((?P<name>\w+)\.md\): (?P<summary>.+)$", re.MULTILINE
)
_CODE = re.compile(r"[A-Z]\d{4}")
_MARK = re.compile(r'# (error|warning|note): \[(\w+)\](?: "[^"\n]*")?')
_FILE = re.compile(r'^```mgn title="(.+?)"$', re.MULTILINE)
_OPTIONS = re.compile(r"^```mgn .+$", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]\n]+)\]\((?:errors/)?(\w+)\.md\)")


def written_pages() -> tuple[Page, ...]:
    """The pages in the order of the table of contents."""
    folder = reference_pages()
    contents = (folder / "README.md").read_text(encoding="utf-8")
    return tuple(
        Page(found["name"], found["title"], found["summary"], _text(folder / f"{found['name']}.md"))
        for found in _CONTENTS.finditer(contents)
    )


def message_page(code: str) -> str | None:
    """The page that shows a message by a program which causes it, if there is such a code."""
    if _CODE.fullmatch(code) is None:
        return None
    path = reference_pages() / "errors" / f"{code}.md"
    return _text(path) if path.is_file() else None


def _text(path: Path) -> str:
    return plain(path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """A page as people read it: `# error: [E0301] "shapes"` becomes `# error[E0301]`."""
    text = _FILE.sub(r"`\1`:\n\n```mgn", text)
    text = _OPTIONS.sub("```mgn", text)
    text = _LINK.sub(r"\1 (page `\2`)", text)
    return _MARK.sub(r"# \1[\2]", text)
