"""The specification holds: each page says what the checker says, and each code has its page."""

from pathlib import Path

import pytest

from meganeura.cli.error_catalogue import problems
from meganeura_dsl import checker
from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.problem import Applicability
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check, loader_beside
from tests.folded import each_of
from tests.literate import SPEC, Page, Program, pages, read, update

CODES = {problem.code for problem in problems()}
ERRORS = SPEC / "errors"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(SPEC)))
def test_page_holds(path: Path) -> None:
    failures = list(read(path).failures())
    assert not failures, "\n\n".join(failures)


def test_every_code_has_its_page() -> None:
    assert {path.stem for path in ERRORS.glob("*")} == CODES


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = (SPEC / "README.md").read_text(encoding="utf-8")
    assert all(f"]({path.name})" in contents for path in SPEC.glob("[!R]*.md"))


@each_of("code", sorted(CODES))
def test_page_shows_its_code(code: str) -> None:
    path = ERRORS / f"{code}.md"
    page = read(path)
    assert path.read_text(encoding="utf-8").startswith(f"# {code}: ")
    shown = [each for each in page.programs if f"[{code}]: " in (each.message or "")]
    assert shown, f"{path.name} shows no whole message"


# --- the fixes of the pages ---------------------------------------------------------------------

FIXABLE = {
    Applicability.SAFE: {
        *("E0103", "E0106", "E0111", "E0112", "E0113", "E0114", "E0121", "E0126", "E0129"),
        *("E0105", "E0130", "E0131", "E0135", "E0136", "E0137"),
    },
    Applicability.SUGGESTED: {
        *("E0102", "E0104", "E0134", "E0201", "E0202", "E0211", "E0212", "E0220"),
        *("E0230", "E0304", "E0305", "E0311", "E0312", "E0315", "E0322"),
    },
}
"""Codes whose pages show a fix of a whole program, by what it does to the meaning."""


def test_every_fix_of_a_page_cures_its_problem_and_causes_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checker, "CHECK", checker.CHECK // 10)  # E0330 takes all there are
    seen: set[tuple[Applicability, str]] = set()
    for path in pages():
        page = read(path)
        for program in page.programs:
            if program.example is None:
                seen |= fixed_codes(page, program)
    assert seen == {(kind, code) for kind, codes in FIXABLE.items() for code in codes}


def fixed_codes(page: Page, program: Program) -> set[tuple[Applicability, str]]:
    """Apply the fixes of a program until none is left; the codes that had one."""
    source, standard = program.source, loader_beside(page.path)

    def load(module: tuple[str, ...]) -> Source | None:
        return page.load(module) or standard(module)

    reports = check(source, load).reports
    without = [
        each.code
        for each in reports
        if each.code != "N0004" and (each.help is None or not each.help.edits)
    ]
    seen: set[tuple[Applicability, str]] = set()
    while fixed := next_fixes(reports, source, unsafe=True):
        seen |= {(each.help.applicability, each.code) for each in reports if each.help}
        edits = [edit for each in fixed if each.help for edit in each.help.edits]
        source = Source(source.name, apply(source.text, edits))
        reports = check(source, load).reports
        assert not {render(each) for each in fixed} & {render(each) for each in reports}
        codes = {code for _, code in seen}
        assert {each.code for each in reports} <= {*without, *codes, "N0004"}, source.text
    assert [each.code for each in reports if each.code != "N0004"] == without, source.text
    return {(kind, code) for kind, code in seen if kind is not Applicability.NONE}


# --- the runner bites ----------------------------------------------------------------------------


def page_of(folder: Path, text: str) -> Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return read(path)


DOUBLE = """\
Prose.

```mgn
block Double()(x: [n, d]) -> [n, 2 * d]:
  y = concat(x, x, axis=1)
  return y

model double = Double()
```

```text
```
"""


def test_a_page_without_faults_holds(tmp_path: Path) -> None:
    text = DOUBLE.replace("axis=1)", "axis=1)  # shape: [n, 2*d]")
    assert not list(page_of(tmp_path, text).failures())


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("return y", "return y  # error: [E0201]", "6: there is no error[E0201]"),
        ("return y", 'return y + z  # error: [E0201] "moth"', "6: there is no error[E0201] saying"),
        ("return y", "return y + z", "6: nobody expects\nerror[E0201]: "),
        ("```text", "```text\nmoth", "9: the message is now\n"),
        ("axis=1)", "axis=1)  # shape: i32[n, 2*d]", "5: the shape is f32[n, 2*d]"),
        ("return y", "return y  # shape: [n]", "6: the shape is unknown: nothing is bound here"),
    ],
)
def test_a_false_claim_fails(tmp_path: Path, old: str, new: str, fault: str) -> None:
    page = page_of(tmp_path, DOUBLE.replace(old, new))
    assert any(each.startswith(f"page.md:{fault}") for each in page.failures())


def test_files_of_a_page_import_each_other(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        '```mgn title="sizes.mgn"\ndef twice(d) = 2 * d\n```\n'
        "```mgn\nfrom sizes import twice\n\n"
        "block Double()(x: [n, d]) -> [n, twice(d)]:\n  return concat(x, x, axis=1)\n```\n",
    )
    assert not list(page.failures())
    assert page.load(("sizes",)) is not None
    assert page.load(("moths",)) is None


def test_markers_are_no_part_of_the_program(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        '```mgn\nx = 1  # kept  # error: [E0101] "a"  # note: [N0001]\n'
        "y = 2  # shape: i32[n], [2*d, n]\n```\n",
    )
    (program,) = page.programs
    assert program.lines == ["x = 1  # kept", "y = 2"]
    assert sorted(map(str, program.claims)) == ['error[E0101] saying "a"', "note[N0001]"]
    assert program.shapes == {2: ["i32[n]", "f32[2*d, n]"]}


def test_escapes(tmp_path: Path) -> None:
    (program,) = page_of(tmp_path, "```mgn escaped\n\\tx\\x00\\r\n```\n").programs
    assert program.source.text == "\tx\0\r\n"
    (program,) = page_of(tmp_path, "```mgn\n\\tx\n```\n").programs
    assert program.source.text == "\\tx\n"


def test_update_writes_the_whole_message(tmp_path: Path) -> None:
    text = DOUBLE.replace("return y", "return y + z  # error: [E0201]")
    page = page_of(tmp_path, text.replace("```text", "```text\nold\nlines"))
    assert list(page.failures())
    update(page)
    assert not list(read(page.path).failures())
    assert "error[E0201]: " in page.path.read_text(encoding="utf-8")
