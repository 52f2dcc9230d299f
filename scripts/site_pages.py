"""The pages of the site as Markdown for Sphinx: guides, language, reference, messages, library.

They are the files of the checkout, and the pages that `meganeura docs` makes of the code. A link to
a page leads to its place on the site; of one to another file of the checkout its words are left.
"""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from meganeura.cli.error_catalogue import problems
from meganeura_dsl.diagnostics.message_pages import message_title, without_test_marks
from meganeura_dsl.reference.generated import generated_pages
from meganeura_dsl.resources import standard_model_names

ROOT = Path(__file__).parents[1]
DOCS, SPEC, LIBRARY = ROOT / "docs", ROOT / "tests" / "spec", ROOT / "stdlib_models"
PICTURES = {".png", ".svg"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s#]*)(#[^()\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
HUNDREDS = {
    "E01": "Syntax",
    "E02": "Names and declarations",
    "E03": "Shapes, and what must hold of sizes",
    "E04": "Expectations and proofs",
    "E05": "Training, settings, data, files and devices",
    "E06": "Data, generation, import",
}


def places() -> dict[Path, Path]:
    """Where each file of the checkout stands on the site, as far as it does."""
    found = {
        ROOT / "README.md": Path("index.md"),
        ROOT / "CONTRIBUTING.md": Path("contributing/index.md"),
        ROOT / "CHANGELOG.md": Path("changelog.md"),
        DOCS / "README.md": Path("guides/index.md"),
        DOCS / "contributing" / "README.md": Path("contributing/pieces.md"),
        SPEC / "README.md": Path("language/index.md"),
        SPEC / "errors": Path("messages/index.md"),
    }
    groups = (
        (DOCS.glob("*.*"), "guides"),
        ((DOCS / "contributing").glob("*.md"), "contributing"),
        (SPEC.glob("*.md"), "language"),
        ((SPEC / "errors").glob("*.md"), "messages"),
    )
    for files, folder in groups:
        for file in sorted(files):
            found.setdefault(file, Path(folder, file.name))
    for file in sorted(LIBRARY.glob("*.mgn")):
        found[file] = Path("library", f"{file.stem}.md")
    return found


def relinked(text: str, file: Path, here: Path, known: Mapping[Path, Path]) -> str:
    """A text of a file whose links lead to the places of what they name; code is left alone."""

    def link(found: re.Match[str]) -> str:
        mark, words, path, anchor = found[1], found[2], found[3], found[4] or ""
        if ":" in path or not path:
            return found[0]
        place = known.get((file.parent / path).resolve())
        if place is None:
            return words
        return f"{mark}[{words}]({os.path.relpath(place, here.parent)}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def contents(entries: Iterable[str], caption: str = "", *, hidden: bool = True) -> str:
    """A table of contents for the sidebar."""
    options = [":maxdepth: 1"]
    options += [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else []
    return "\n".join(("\n```{toctree}", *options, "", *entries, "```\n"))


def listed(index: Path) -> list[str]:
    """The names of the pages that a table of contents numbers, in its order."""
    return re.findall(
        r"^\d+\. \[.+?\]\((\w+)\.md\)", index.read_text(encoding="utf-8"), re.MULTILINE
    )


ORPHAN = "---\norphan: true\n---\n\n"
"""The head of a page that no sidebar has: there would be 233 lines of them on each page."""
ICON = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#0b7a75"/>
<path d="M8 23V9l8 9 8-9v14" fill="none" stroke="#fff" stroke-width="3.2" stroke-linejoin="round"
 stroke-linecap="round"/>
</svg>
"""
TRY = "[Try it in your browser](try.md)"
PLAYGROUND = """\
# Playground

The checker runs in your browser: write a program and see what is proved.
<a href="playground/index.html">Open it in a whole window</a>, which has more room.
Another page <a href="train.html">trains a small network on handwritten digits</a> by WebGPU.

<iframe src="playground/index.html" title="Playground" loading="lazy"
 style="width: 100%; height: 80vh; border: 1px solid var(--color-background-border)"></iframe>
"""


def write_pages(out: Path) -> None:
    """Write the pages and the pictures into a folder."""
    known = places()
    for file, here in known.items():
        if file.suffix in PICTURES:
            copied(file, out / here)
        elif file.suffix == ".mgn":
            written(out / here, program_page(file))
        elif file.is_file():
            text = relinked(without_test_marks(file.read_text(encoding="utf-8")), file, here, known)
            if here.name == here.as_posix() == "index.md":
                text = text.replace("\n\n```mgn", f"\n\n{TRY}\n\n```mgn", 1)
            head = ORPHAN if here.parent.name == "messages" else ""
            written(out / here, head + text + MORE.get(here.as_posix(), ""))
    for page in generated_pages():
        written(out / "reference" / f"{page.name}.md", page.text)
    written(out / "reference" / "index.md", reference_index())
    written(out / "messages" / "index.md", messages_index())
    written(out / "library" / "index.md", library_index())
    written(out / "try.md", PLAYGROUND)
    written(out / "icon.svg", ICON)
    shutil.copyfile(Path(__file__).with_name("site_conf.py"), out / "conf.py")


MORE = {
    "index.md": contents(
        ["try", "guides/index", "language/index", "reference/index", "library/index"], "Use"
    )
    + contents(["messages/index", "contributing/index", "changelog"], "Look up"),
    "guides/index.md": contents([*listed(DOCS / "README.md"), "testing"]),
    "language/index.md": contents(listed(SPEC / "README.md")),
    "contributing/index.md": contents(
        ["pieces", *sorted(file.stem for file in (DOCS / "contributing").glob("[a-z]*.md"))]
    ),
}
"""The tables of contents below some pages."""


def written(file: Path, text: str) -> None:
    """Write a file into a folder that need not be there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def copied(file: Path, to: Path) -> None:
    """Copy a file into a folder that need not be there."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def program_page(file: Path) -> str:
    """A program of the library, with a link that opens it in the playground."""
    source = file.read_text(encoding="utf-8").rstrip()
    link = f'<a href="../playground/index.html#{file.stem}">Open in the playground</a>'
    return f"# {file.stem}\n\n{link}\n\n```mgn\n{source}\n```\n"


def reference_index() -> str:
    """The list of the pages that are made from the code."""
    lines = [f"- [{page.title}]({page.name}.md): {page.summary}" for page in generated_pages()]
    text = "# Reference\n\nThese pages are made from the code.\n\n" + "\n".join(lines) + "\n"
    return text + contents(page.name for page in generated_pages())


def library_index() -> str:
    """The list of the programs of the library."""
    names = standard_model_names()
    lines = [f"- [{name}]({name}.md)" for name in names]
    about = "The [list of programs](../reference/programs.md) says which models each has."
    return f"# The library\n\n{about}\n\n" + "\n".join(lines) + "\n" + contents(names)


def messages_index() -> str:
    """All messages by their codes, each with its topic and the title of its page."""
    topics = {problem.code: problem.topic for problem in problems()}
    parts = ["# Messages\n\nEach message has a code; `meganeura explain E0301` shows its page.\n"]
    codes = sorted(file.stem for file in (SPEC / "errors").glob("*.md"))
    for start, heading in (*HUNDREDS.items(), ("N", "Notes"), ("W", "Warnings")):
        rows = [
            f"| [{code}]({code}.md) | {topics[code]} | {message_title(code)} |"
            for code in codes
            if code.startswith(start)
        ]
        if rows:
            table = "\n".join(("| code | topic | |", "|---|---|---|", *rows))
            parts.append(f"## {heading}\n\n{table}\n")
    return "\n".join(parts)
