"""Whatever is written: parsing ends, and says what is wrong at places that exist."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.syntax.parser.parser import outline
from tests.dsl.syntax.trees import NAMES, nodes, plain, program, read
from tests.effort import effort

PIECE = re.compile(r"[ \t]+|\n|[A-Za-z_]\w*|\d[\d_.]*|\"[^\"\n]*\"|\|>|->|#[^\n]*|.")
STRANGE = (
    "\t", "\0", "é", "\r", '"', "'", "(", ")", "[", "]", ":", "=", "==", "|>", "->", "..", "...",
    "-", ",", ".", "\n", "\n  ", "\nmodel ", "block ", "if", "else", "not", "1", "x", " ",
)  # fmt: skip
PIECES = {name: tuple(PIECE.findall(program(name))) for name in NAMES}
ALL = [piece for pieces in PIECES.values() for piece in pieces]

Pieces = list[str]


def _delete(pieces: Pieces, at: int, _: str) -> None:
    del pieces[at]


def _insert(pieces: Pieces, at: int, piece: str) -> None:
    pieces.insert(at, piece)


def _repeat(pieces: Pieces, at: int, _: str) -> None:
    pieces.insert(at, pieces[at])


def _replace(pieces: Pieces, at: int, piece: str) -> None:
    pieces[at] = piece


def _truncate(pieces: Pieces, at: int, _: str) -> None:
    del pieces[at + 1 :]


CHANGES = (_delete, _insert, _repeat, _replace, _truncate)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the programs with one to four changes."""
    pieces = list(PIECES[draw(st.sampled_from(NAMES))])
    for _ in range(draw(st.integers(1, 4))):
        change = draw(st.sampled_from(CHANGES))
        at = draw(st.integers(0, len(pieces) - 1))
        change(pieces, at, draw(st.sampled_from(STRANGE) | st.sampled_from(ALL)))
        if not pieces:
            break
    return "".join(pieces)


def check(text: str) -> tuple[Report, ...]:
    """Parse a text, check what every parse promises, and give what was reported."""
    module, reports = read(text)
    found = outline(Source("test.mgn", text))
    others = [report for report in reports if report.code != "E0139"]
    assert len(others) <= max(len(found), 1)  # of pipes, a declaration may have several
    assert len(module.declarations) + len(reports) >= len(found)
    for report in reports:
        assert report.label is not None
        assert 0 <= report.label.span.start <= report.label.span.end <= len(text)
        assert render(report)
    for node in nodes(module):
        assert 0 <= node.span.start < node.span.end <= len(text) or not node.span.text.strip()
    return reports


@settings(max_examples=effort(100, 5000))
@given(mutated())
def test_changed_programs(text: str) -> None:
    check(text)


@settings(max_examples=effort(60, 3000))
@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=effort(60, 3000))
@given(st.lists(st.sampled_from([*STRANGE, *ALL[:40]]), max_size=60))
def test_any_tokens(pieces: Pieces) -> None:
    check("".join(pieces))


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.data())
def test_a_broken_declaration_leaves_the_others_as_they_are(name: str, data: st.DataObject) -> None:
    text = program(name)
    found = outline(Source("test.mgn", text))
    broken = data.draw(st.integers(0, len(found) - 1))
    parts = [each.span.text for each in found]
    parts[broken] = f"{found[broken].kind} = 1\n"
    module, reports = read("".join(parts))
    whole, _ = read(text)
    others = whole.declarations[:broken] + whole.declarations[broken + 1 :]
    assert len(reports) == 1
    assert plain(module.declarations) == plain(others)
