"""What must hold of the repository as a whole, and no linter looks at."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("meganeura_dsl", "runtime", "scripts", "tests", "benchmarks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

MOST_LINES = 400

# Heavy, and needed by some commands only.
LATE = ("egglog", "hypothesis", "lark", "rich", "torch", "typer", "wgpu")


def test_the_sources_are_found() -> None:
    assert Path(__file__) in SOURCES


def test_no_source_is_longer_than_can_be_read() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_importing_the_front_end_loads_nothing_heavy() -> None:
    script = "import sys, meganeura_dsl; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert "meganeura_dsl" in loaded
    assert loaded.isdisjoint(LATE)


def test_every_make_target_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    described = re.findall(r"^([a-z-]+):.*## \w", makefile, re.MULTILINE)
    assert phony == [" ".join(described)]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_only_targets_and_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"\bmake ([a-z-]+)\b", text))
    links = set(re.findall(r"\]\(([\w./]+)\)", text))
    paths = set(re.findall(r"`([\w.]+/[\w./]*)`", text))
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert targets <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {path for path in links | paths if not (ROOT / path).exists()} == set()


def test_pytorch_is_imported_by_the_parity_tests_only() -> None:
    importing = re.compile(r"^\s*(?:import|from) torch\b", re.MULTILINE)
    importers = [path for path in SOURCES if importing.search(path.read_text())]
    allowed = {ROOT / "tests" / "parity", ROOT / "benchmarks"}
    assert [path for path in importers if allowed.isdisjoint(path.parents)] == []
