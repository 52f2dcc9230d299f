"""Statements of the pages for contributors about the code.

Paths, names, rooms, passes, excerpts.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from meganeura_runtime.backends.webgpu.passes.pipeline import PASSES, name_of
from tests.folded import each_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGES = ("meganeura", "meganeura_dsl", "runtime/meganeura_runtime")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
BASES = (
    "",
    "meganeura",
    "meganeura_dsl",
    "meganeura_dsl/transforms/egraph",
    "runtime/meganeura_runtime",
    "runtime/meganeura_runtime/backends/webgpu",
)
"""The bases of relative paths in pages, beside their page."""

OF_OTHERS = {
    "Adadelta",
    "Adamax",
    "AveragedModel",
    "Callback",
    "Config",
    "DataLoader",
    "False",
    "GradScaler",
    "LearningRateScheduler",
    "LockFile",
    "ModelCheckpoint",
    "None",
    "ReduceLROnPlateau",
    "TensorBoardLogger",
    "TerminateOnNaN",
    "True",
    "ValueError",
}
"""Names in backticks that are not ours."""

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
PATH = re.compile(r"[\w.]+(?:/[\w.]+)+/?")
NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*")


def ticked(page: Path) -> list[str]:
    """Returns the code in backticks in the prose of a page."""
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", page.read_text()))


def is_placeholder(path: str) -> bool:
    """True if a part of a path stands for any name, as in `tests/passes/NAME`."""
    return any(part.partition(".")[0].isupper() for part in path.split("/"))


@cache
def sources(folder: str) -> dict[Path, str]:
    """The texts of the Python files of a folder."""
    return {path: path.read_text() for path in (ROOT / folder).rglob("*.py")}


@cache
def defined() -> frozenset[str]:
    """Modules, packages, and what they define at their top level."""
    found: set[str] = set()
    for folder in (*PACKAGES, "tests", "benchmarks"):
        for path, text in sources(folder).items():
            found |= {path.stem, path.parent.name}
            found.update(re.findall(r"^(?:class |def )?(\w+)", text, re.MULTILINE))
    return frozenset(found)


@cache
def blocks() -> frozenset[str]:
    """The blocks of the standard library."""
    texts = (path.read_text() for path in (ROOT / "stdlib_models").glob("*.mgn"))
    return frozenset(
        name for text in texts for name in re.findall(r"^block (\w+)", text, re.MULTILINE)
    )


def test_the_pages_are_found() -> None:
    assert {"architecture.md", "glossary.md", "README.md"} <= {page.name for page in PAGES}
    assert {"Session", "rebuild", "rematerialize", "RewriteOptions"} <= defined()


@each_of("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_links_of_a_page_exist(page: Path) -> None:
    bases = [page.parent, *(ROOT / base for base in BASES)]
    paths = {each for each in ticked(page) if PATH.fullmatch(each) and not is_placeholder(each)}
    files = {each for each in ticked(page) if re.fullmatch(r"\w+\.(py|md|mgn|lark)", each)}
    known = {path.name for folder in (*PACKAGES, "tests", "scripts") for path in sources(folder)}
    missing = {path for path in paths if not any((base / path).exists() for base in bases)}
    assert missing == set()
    text = FENCED.sub("", page.read_text())
    links = {link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if ":" not in link}
    assert {link for link in links if not (page.parent / link).exists()} == set()
    assert {each for each in files - known if (ROOT / each).suffix == ".py"} == set()


@each_of("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_classes_that_a_page_names_exist(page: Path) -> None:
    names = {each.removesuffix("()") for each in ticked(page)}
    parts = {part for name in names if NAME.fullmatch(name) for part in name.split(".")}
    classes = {part for part in parts if re.fullmatch(r"[A-Z][a-z]\w*", part)}
    assert classes - defined() - blocks() - OF_OTHERS == set()


# --- architecture --------------------------------------------------------------------------------

ARCHITECTURE = (DOCS / "architecture.md").read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_is_in_the_architecture(package: str) -> None:
    name = package.rpartition("/")[2]
    (section,) = re.findall(rf"^### {name}$(.*?)(?=^##)", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    listed = re.findall(r"^\| `([\w/]+)` \|", section, re.MULTILINE)
    rooms = {
        str(path.parent.relative_to(ROOT / package))
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert sorted(listed) == sorted(rooms - {"."})


def test_the_passes_are_those_of_the_pipeline() -> None:
    drawn = re.findall(r"^ {4}(\d)  ([\w-]+)", ARCHITECTURE, re.MULTILINE)
    assert drawn == [(str(number), name_of(each)) for number, each in enumerate(PASSES, 1)]


# --- glossary ------------------------------------------------------------------------------------

ROWS = re.findall(
    r"^\| ([^|]+?) \| `(\w+)` \| ([^|]+) \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE
)


def test_the_glossary_is_in_order_and_says_each_term_once() -> None:
    terms = [term.lower().lstrip(".") for term, _, _ in ROWS]
    assert len(terms) > 60
    assert terms == sorted(set(terms))
    lines = (DOCS / "glossary.md").read_text().splitlines()
    assert len(ROWS) == sum(line.startswith("| ") for line in lines) - 1


@each_of(("term", "name", "meaning"), ROWS, ids=[term for term, _, _ in ROWS])
def test_a_term_names_a_module_a_class_or_a_function(term: str, name: str, meaning: str) -> None:
    assert term
    assert len(meaning) > 20
    assert name in defined()


# --- contributing --------------------------------------------------------------------------------

GUIDES = sorted((DOCS / "contributing").glob("*.md"))
EXCERPT = re.compile(r"`([\w./]+\.py)`:\n\n((?:```python\n.*?\n```\n\n?)+)", re.DOTALL)


def excerpts() -> list[tuple[str, str, str]]:
    """The page, the file and the text of each excerpt."""
    return [
        (guide.name, path, text)
        for guide in GUIDES
        for path, blocks in EXCERPT.findall(guide.read_text() + "\n")
        for text in re.findall(r"```python\n(.*?)\n```", blocks, re.DOTALL)
    ]


def test_every_excerpt_has_a_file() -> None:
    blocks = sum(guide.read_text().count("```python\n") for guide in GUIDES)
    assert len(excerpts()) == blocks > 8


@each_of(("page", "path", "text"), excerpts(), [f"{page} {path}" for page, path, _ in excerpts()])
def test_an_excerpt_is_in_its_file(page: str, path: str, text: str) -> None:
    assert page
    assert f"{text}\n" in (ROOT / path).read_text()


def test_every_guide_is_in_the_table() -> None:
    table = (DOCS / "contributing" / "README.md").read_text()
    guides = {guide.name for guide in GUIDES} - {"README.md"}
    assert set(re.findall(r"\]\((\w+\.md)", table)) - {"architecture.md", "glossary.md"} == guides


def test_modules_named_with_python_m_exist() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"python -m ([a-z_][\w.]*)", page.read_text())
    }
    ours = {name for name in named if (ROOT / name.partition(".")[0]).is_dir()}
    assert "tests.passes.golden" in ours
    assert {name for name in ours if not has_module(name)} == set()


def has_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


# --- words ---------------------------------------------------------------------------------------

FOLDERS = (*PACKAGES, "grammar", "stdlib_models", "tests", "docs", "scripts", "benchmarks", "fuzz")
SUFFIXES = {".py", ".md", ".mgn", ".lark", ".txt", ".toml", ".sh"}
PRIVATE = ("made" + " again", "at" + "tend", "a" + "like", "signs" + " off", "dear" + "est")
"""Words of our own for rematerialization, attention, equal, verifies and most expensive."""


def texts() -> list[Path]:
    """The files that people read."""
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted({*PAGES, *(path for path in inside if path.suffix in SUFFIXES)})


def test_the_terms_of_the_field_are_used() -> None:
    words = re.compile(rf"\b({'|'.join(PRIVATE)})\b", re.IGNORECASE)
    assert all(words.search(f"it {word}.") for word in PRIVATE)
    files = texts()
    assert len(files) > 800
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in words.finditer(path.read_text())
    }
    assert found == set()


QUESTIONS = ("What", "Whether", "How", "Which", "Who", "Why")
"""Words that begin a question; a verb with its object, `True if` or a noun makes it a statement."""
PYTHON = (*PACKAGES, "verify", "tests", "scripts", "benchmarks", "fuzz")


def test_no_docstring_is_a_question() -> None:
    words = re.compile(rf'^ *r?"""({"|".join(QUESTIONS)})\b.*', re.MULTILINE)
    assert all(words.search(f'    """{word} it is so."""') for word in QUESTIONS)
    files = {path: text for folder in PYTHON for path, text in sources(folder).items()}
    assert len(files) > 1500
    found = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path, text in files.items()
        for match in words.finditer(text)
    }
    assert found == set()
