"""Properties of the repository as a whole that no linter checks."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from runpy import run_path

import pytest

from meganeura_dsl import __version__

ROOT = Path(__file__).parents[1]
FOLDERS = ("meganeura", "meganeura_dsl", "runtime", "scripts", "tests", "benchmarks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

# Heavy, and needed by some commands only.
LATE = ("egglog", "hypothesis", "lark", "rich", "torch", "typer", "wgpu")


def test_the_sources_are_found() -> None:
    assert Path(__file__) in SOURCES


def test_importing_the_front_end_loads_nothing_heavy() -> None:
    script = "import sys, meganeura_dsl; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert "meganeura_dsl" in loaded
    assert loaded.isdisjoint(LATE)


def imported_by(path: Path) -> Iterator[str]:
    """Top-level names of the packages a source imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.split(".")[0]


def test_the_distribution_depends_on_what_it_imports_and_on_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"\W", requirement)[0] for requirement in project["dependencies"]}
    packages = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in FOLDERS[:3]]
    imported = {name for path in packages for name in imported_by(path)}
    own = {"meganeura", "meganeura_dsl", "meganeura_runtime", "meganeura_verify"}
    provided = {
        "_cffi_backend",
        "cffi",
        "pydantic_core",
        "pygments",
    }  # with wgpu, pydantic and rich
    # Extras; `google` is the protobuf of onnx.
    optional = {
        "egglog",
        *("google", "huggingface_hub", "hypothesis", "jax", "lsprotocol", "onnx", "onnxruntime"),
        *("pygls", "wgpudawn"),
    }
    assert imported - own - provided - optional - sys.stdlib_module_names == declared


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("verify/pyproject.toml", r'^version = "(.+)"$'),
        ("docs/stability.md", r"Meganeura is at (\d+\.\d+):"),
        ("docs/editors.md", r"meganeura-(.+?)\.vsix"),
        ("docs/browser.md", r"meganeura-(.+?)\.tgz"),
        *(
            (f"{each}/package.json", r'"version": "(.+)"')
            for each in ("runtime/web", "grammar/vscode")
        ),
        ("grammar/tree-sitter/tree-sitter.json", r'"version": "(.+)"'),
    ],
)
def test_a_release_has_one_number(file: str, pattern: str) -> None:
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found is not None
    assert f"{__version__}.".startswith(f"{found[1]}.")


PACKAGES = ("meganeura", "meganeura_dsl", "runtime/meganeura_runtime")
FROM = re.compile(r"^[ \t]*from (meganeura\w*(?:\.\w+)*) import (\([^)]*\)|[^\n(]+)", re.MULTILINE)


def imports() -> dict[str, set[str]]:
    """Returns the imports of each module: at its top, in functions, or for types alone."""
    files: dict[str, Path] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to((ROOT / package).parent).with_suffix("").parts
            files[".".join(parts).removesuffix(".__init__")] = path
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        of = [
            f"{source}.{name}" if f"{source}.{name}" in files else source
            for source, names in FROM.findall(path.read_text())
            for name in re.findall(r"\w+", names)
        ]
        found[module] = {*of} - {module}
    return found


def circle(found: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or nothing."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = imports()
    assert circle(found) == []
    state, summary = (f"meganeura_dsl.elaborate.scope.{name}" for name in ("state", "summary"))
    assert summary in found[state]
    found[summary].add(state)
    assert {state, summary} <= {*circle(found)}


def test_every_known_mistake_can_be_planted() -> None:
    """The text that one of `scripts/plants.py` replaces is in its file, once."""
    plants = run_path(str(ROOT / "scripts" / "plants.py"))["PLANTS"]
    texts = {plant.file: (ROOT / plant.file).read_text() for plant in plants}
    assert len(plants) > 100
    assert [each.name for each in plants if texts[each.file].count(each.right) != 1] == []


def test_every_known_mistake_is_in_the_table() -> None:
    """`docs/testing.md` has one row for each of `scripts/plants.py`, with a test of it."""
    plants = run_path(str(ROOT / "scripts" / "plants.py"))["PLANTS"]
    page = (ROOT / "docs" / "testing.md").read_text()
    table = re.findall(r"^\| (.+) \| `(.+)` \| `(tests/.+)` \|$", page, re.MULTILINE)
    assert sorted(row[:2] for row in table) == sorted((each.name, each.file) for each in plants)
    files = {each.name: {test.partition("::")[0] for test in each.tests} for each in plants}
    named = {name: set(re.findall(r"tests/[\w/]+\.py", tests)) for name, _, tests in table}
    assert [name for name, found in named.items() if not found & files[name]] == []


def test_every_known_mistake_names_tests_that_exist() -> None:
    plants = run_path(str(ROOT / "scripts" / "plants.py"))["PLANTS"]
    named = {test.partition("[")[0] for plant in plants for test in plant.tests}
    texts = {
        file: (ROOT / file).read_text() for file in {test.partition("::")[0] for test in named}
    }
    missing = [
        test
        for test in sorted(named)
        for file, _, function in [test.partition("::")]
        if function and f"\ndef {function}(" not in texts[file]
    ]
    assert missing == []


def test_every_test_is_in_a_file_that_is_collected() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    defined = re.compile(r"^def test_", re.MULTILINE)
    assert [path.name for path in tests if defined.search(path.read_text())] == []


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
    made = tuple(line for line in (ROOT / ".gitignore").read_text().split() if line[-1] == "/")
    checked = {path for path in links | paths if not path.startswith(made)}
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert targets <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {path for path in checked if not (ROOT / path).exists()} == set()


def test_pytorch_is_imported_by_the_parity_tests_only() -> None:
    importing = re.compile(r"^\s*(?:import|from) torch\b", re.MULTILINE)
    importers = [path for path in SOURCES if importing.search(path.read_text())]
    allowed = {ROOT / "tests" / "parity", ROOT / "benchmarks"}
    assert [path for path in importers if allowed.isdisjoint(path.parents)] == []
