"""Edits are applied together, and of fixes that overlap the first wins as a whole."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from meganeura_dsl.diagnostics.fixes import Hunk, apply, compatible_fixes, hunks, next_fixes
from meganeura_dsl.diagnostics.problem import (
    Applicability,
    Edit,
    Help,
    Label,
    Report,
    Severity,
    safe_fix,
    suggested_fix,
)
from meganeura_dsl.diagnostics.source import Source, Span

SOURCE = Source("net.mgn", "x = y\nz = w\n")


def edit(start: int, end: int, text: str, source: Source = SOURCE) -> Edit:
    return Edit(Span(source, start, end), text)


def report(*edits: Edit) -> Report:
    label = Label(Span(SOURCE, 0, 1))
    cure = safe_fix("do", *edits) if edits else None
    return Report("E0999", Severity.ERROR, "wrong", "test", label, help=cure)


def test_edits_refer_to_the_text_before() -> None:
    edits = [edit(10, 11, "long"), edit(0, 1, ""), edit(4, 5, "yy")]
    assert apply(SOURCE.text, edits) == " = yy\nz = long\n"


@pytest.mark.parametrize(
    ("second", "both"),
    [
        (edit(4, 5, "a"), False),
        (edit(3, 5, "a"), False),
        (edit(5, 6, "a"), True),
        (edit(2, 4, "a"), True),
        (edit(5, 5, "a"), False),
        (edit(4, 4, "a"), False),
        (edit(6, 6, "a"), True),
    ],
)
def test_of_overlapping_fixes_the_first_wins(second: Edit, *, both: bool) -> None:
    first, other = report(edit(4, 5, "b")), report(edit(10, 11, "c"), second)
    assert compatible_fixes([first, other], SOURCE) == ((first, other) if both else (first,))


def test_insertions_at_one_place_overlap() -> None:
    first, second = report(edit(5, 5, "a")), report(edit(5, 5, "b"))
    assert compatible_fixes([first, second], SOURCE) == (first,)


def test_only_fixes_of_the_source_are_taken() -> None:
    elsewhere = report(edit(0, 1, "a", Source("net.mgn", SOURCE.text)))
    both = report(edit(0, 1, "a"), edit(2, 3, "a", Source("net.mgn", SOURCE.text)))
    here = report(edit(0, 1, "a"))
    assert compatible_fixes([report(), elsewhere, both, here], SOURCE) == (here,)


def guess(*edits: Edit) -> Report:
    return replace(report(), help=suggested_fix("do", *edits))


def test_safe_fixes_come_first_and_suggested_ones_one_at_a_time() -> None:
    one, other, safe = guess(edit(0, 1, "a")), guess(edit(4, 5, "b")), report(edit(10, 11, "c"))
    assert compatible_fixes([one, other, safe], SOURCE) == (safe,)
    assert next_fixes([one, safe, other], SOURCE, unsafe=True) == (safe,)
    assert next_fixes([one, other], SOURCE, unsafe=True) == (one,)
    assert next_fixes([one, other], SOURCE, unsafe=False) == ()
    assert next_fixes([report()], SOURCE, unsafe=True) == ()


def test_a_help_has_a_kind_if_and_only_if_it_has_edits() -> None:
    assert safe_fix("do").applicability is suggested_fix("do").applicability is Applicability.NONE
    with pytest.raises(ValueError, match="1 edits are none"):
        Help("do", edits=(edit(0, 1, "a"),))
    with pytest.raises(ValueError, match="0 edits are safe"):
        Help("do", applicability=Applicability.SAFE)


def test_hunks_are_whole_lines() -> None:
    assert hunks(()) == ()
    assert hunks([edit(10, 11, "v"), edit(0, 1, "u")]) == (
        Hunk(1, ("x = y",), ("u = y",)),
        Hunk(2, ("z = w",), ("z = v",)),
    )
    assert hunks([edit(4, 6, "")]) == (Hunk(1, ("x = y", "z = w"), ("x = z = w",)),)
    assert hunks([edit(12, 12, "end")]) == (Hunk(3, ("",), ("end",)),)


@given(text=some.text("ab\n", max_size=30), places=some.lists(some.integers(0, 30), max_size=8))
def test_hunks_tell_all_that_changes(text: str, places: list[int]) -> None:
    source = Source("net.mgn", text)
    ends = sorted({min(place, len(text)) for place in places})
    edits = [edit(*pair, "cc", source) for pair in zip(ends[::2], ends[1::2], strict=False)]
    lines = text.split("\n")
    for hunk in reversed(hunks(edits)):
        start = hunk.line - 1
        assert tuple(lines[start : start + len(hunk.before)]) == hunk.before
        lines[start : start + len(hunk.before)] = hunk.after
    assert "\n".join(lines) == apply(text, edits)
