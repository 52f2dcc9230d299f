"""The pages of the site are all there, and their links lead to each other."""

import re
import sys
from pathlib import Path
from runpy import run_path
from types import ModuleType
from typing import Any

import attrs
import pytest

from meganeura_dsl.resources import standard_model_names

ROOT = Path(__file__).parents[1]
SITE = run_path(str(ROOT / "scripts" / "site_pages.py"))
LINK = re.compile(r"\]\(([^()\s:#]+)(?:#[^()\s]*)?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    SITE["write_pages"](out)
    return out


def test_every_page_is_there(site: Path) -> None:
    def names(folder: Path, pattern: str = "*.md") -> set[str]:
        return {file.stem for file in folder.glob(pattern)} - {"README"}

    assert names(ROOT / "docs") <= names(site / "guides")
    assert names(ROOT / "docs/contributing") <= names(site / "contributing")
    assert names(ROOT / "tests/spec") <= names(site / "language")
    assert names(ROOT / "tests/spec/errors") <= names(site / "messages")
    assert {*standard_model_names()} <= names(site / "library")
    assert {"functions", "layers", "programs", "settings", "grammar"} <= names(site / "reference")
    assert names(ROOT / "docs", "*.png") == names(site / "guides", "*.png")


def test_every_page_but_those_of_messages_is_in_a_sidebar(site: Path) -> None:
    listed: set[Path] = {site / "index.md"}
    for page in site.rglob("*.md"):
        for table in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            names = [line for line in table.split("\n") if line and not line.startswith(":")]
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    pages = {page for page in site.rglob("*.md") if page.parent.name != "messages"}
    assert listed - {site / "messages/index.md"} == pages


def test_every_message_is_in_the_index(site: Path) -> None:
    listed = re.findall(r"^\| \[(\w+)\]", (site / "messages/index.md").read_text(), re.MULTILINE)
    codes = [page.stem for page in (site / "messages").glob("[A-Z]*.md")]
    assert sorted(listed) == sorted(codes)


def test_the_check_of_a_site_that_is_not_there_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["check_site.py", "--site", str(tmp_path)])
    monkeypatch.setattr("sys.path", [*sys.path])  # which the script adds to
    with pytest.raises(SystemExit, match="has no site: `make site` writes it"):
        run_path(str(ROOT / "scripts" / "check_site.py"))["main"]()


def test_every_link_leads_to_a_page(site: Path) -> None:
    links = 0
    for page in site.rglob("*.md"):
        for part in SITE["FENCE"].split(page.read_text()):
            for link in () if part.startswith("```") else LINK.findall(part):
                assert (page.parent / link).is_file(), f"{page.relative_to(site)}: {link}"
                links += 1
    assert links > 300


def test_links_follow_their_pages_and_code_is_left_alone() -> None:
    known, here = SITE["places"](), Path("guides/training.md")
    text = (
        "[sizes](../tests/spec/dims.md#a) [below](#b) [web](https://example.org/x.md)\n"
        "[words](../scripts/plants.py) ![curve](learning.svg) [program](../stdlib_models/vae.mgn)\n"
        "```sh\n[sizes](../tests/spec/dims.md)\n```\n"
    )
    assert SITE["relinked"](text, ROOT / "docs/training.md", here, known) == (
        "[sizes](../language/dims.md#a) [below](#b) [web](https://example.org/x.md)\n"
        "words ![curve](learning.svg) [program](../library/vae.md)\n"
        "```sh\n[sizes](../tests/spec/dims.md)\n```\n"
    )


def test_programs_have_no_marks_of_the_tests(site: Path) -> None:
    text = (site / "messages/E0301.md").read_text()
    assert "# error[E0301]" in text
    assert "# error: [" not in text
    assert not re.search(r"^```mgn .", text, re.MULTILINE)


def test_a_folder_that_is_no_site_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.md"
    mine.write_text("mine")
    monkeypatch.setattr("sys.argv", ["build_site.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="is not empty and is no site"):
        builder(monkeypatch)["main"]()
    assert mine.read_text() == "mine"


def test_a_step_that_fails_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"json\.tool failed: [12]; name a file"):
        builder(monkeypatch)["run_python"]("json.tool", "none.json", cure="name a file")


MODULE = """\
import attrs
from typing import Optional
Alias = Optional["Inner"]
class Inner:
    x: int
class Wanted:
    \"\"\"Not `Unused`.\"\"\"
    kept: Alias
class Unused:
    pass
table: dict[str, type] = {"unused": Unused}
def helper() -> None:
    Unused()
"""


def test_of_a_module_stays_what_some_names_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = builder(monkeypatch)["reached"]
    kept = reached(MODULE, {"Wanted"})
    declared = ["import attrs", "from typing", "Alias = ", "class Inner", "class Wanted"]
    assert [line for line in declared if line in kept] == declared
    assert not re.search(r"class Unused|^table|def helper", kept, re.MULTILINE)
    with pytest.raises(SystemExit, match="declares no Missing"):
        reached(MODULE, {"Missing"})


def test_the_playground_has_the_protocol_that_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    build = builder(monkeypatch)
    files = dict(build["python_files"]())
    names = build["imported"](files.values())
    text = build["reached"](files[build["PROTOCOL"]].read_text(), names)
    protocol = ModuleType("lsprotocol.types")
    protocol.__package__ = "lsprotocol"
    exec(text, vars(protocol))  # noqa: S102 - a part of a library that is installed
    assert names <= vars(protocol).keys()
    for each in [found for found in vars(protocol).values() if attrs.has(found)]:
        attrs.resolve_types(each, vars(protocol))
    assert text.count("class ") < 100


def builder(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the functions of the script that builds the site."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return run_path(str(ROOT / "scripts" / "build_site.py"))
