"""The pages of messages, as `meganeura explain E0301`, `meganeura docs E0301` and SARIF show them.

They are the pages of `tests/spec/errors`, whose programs and messages the test suite checks.
"""

import re

from meganeura_dsl.resources import reference_pages

_CODE = re.compile(r"[A-Z]\d{4}")
_MARK = re.compile(r'# (error|warning|note): \[(\w+)\](?: "[^"\n]*")?')
_FILE = re.compile(r'^```mgn title="(.+?)"$', re.MULTILINE)
_OPTIONS = re.compile(r"^```mgn .+$", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]+)\]\((?:[\w.]+/)*(\w+)\.md(?:#[\w-]+)?\)")


def message_page(code: str) -> str | None:
    """Returns the page of a code in Markdown, or `None` where there is no such code."""
    if _CODE.fullmatch(code) is None:
        return None
    path = reference_pages() / "errors" / f"{code}.md"
    return without_marks(path.read_text(encoding="utf-8")) if path.is_file() else None


def message_title(code: str) -> str:
    """Returns the title of the page of a code, without the code; raises `OSError`."""
    path = reference_pages() / "errors" / f"{code}.md"
    with path.open(encoding="utf-8") as page:
        return page.readline().strip().partition(": ")[2]


def without_marks(text: str) -> str:
    """Returns a page as people read it: `# error: [E0301] "shapes"` becomes `# error[E0301]`."""
    return without_test_marks(without_links(text))


def without_test_marks(text: str) -> str:
    """Returns a page with its links, whose programs have no marks of the test suite."""
    text = _FILE.sub(r"`\1`:\n\n```mgn", text)
    text = _OPTIONS.sub("```mgn", text)
    return _MARK.sub(r"# \1[\2]", text)


def without_links(text: str) -> str:
    """Returns a page whose links to other pages say how these are called in `meganeura docs`."""
    return _LINK.sub(_named, text)


def _named(link: re.Match[str]) -> str:
    """Returns `words (page `name`)`, or `page `name`` for a link whose words are a file."""
    words, page = link[1], f"page `{link[2]}`"
    return page if words.strip("`").endswith(".md") else f"{words} ({page})"
