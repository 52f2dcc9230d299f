"""Fixes: the edits of a help, as they are applied to a text and as they are shown.

A fix is `Help.edits`: all of them are applied, or none. Offsets are those of the text before.
`Help.applicability` says what it does to the meaning of the program.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.report import Applicability, Edit, Report
from meganeura_dsl.diagnostics.source import Source, Span


@dataclass(frozen=True)
class Hunk:
    """Lines that a fix changes: the number of the first, and all of them before and after."""

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made; they must not overlap."""
    for edit in sorted(edits, key=_location, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def compatible_fixes(
    reports: Iterable[Report], source: Source, kind: Applicability = Applicability.SAFE
) -> tuple[Report, ...]:
    """The reports with such a fix of this source, without each whose fix overlaps one before it."""
    chosen: list[Report] = []
    taken: list[Edit] = []
    for report in reports:
        is_meant = report.help is not None and report.help.applicability is kind
        edits = report.help.edits if report.help is not None and is_meant else ()
        is_here = all(edit.span.source is source for edit in edits)
        if edits and is_here and not any(_overlap(a, b) for a in edits for b in taken):
            chosen.append(report)
            taken.extend(edits)
    return tuple(chosen)


def next_fixes(reports: Iterable[Report], source: Source, *, unsafe: bool) -> tuple[Report, ...]:
    """Returns the next fixes to apply: all safe ones, or, if none and `unsafe`, one suggestion.

    The program has to be checked again behind each iteration.
    """
    found = tuple(reports)
    chosen = compatible_fixes(found, source)
    if chosen or not unsafe:
        return chosen
    return compatible_fixes(found, source, Applicability.SUGGESTED)[:1]


def _overlap(one: Edit, other: Edit) -> bool:
    """True if two edits change the same characters, or one inserts at an end of the other."""
    first, second = one.span, other.span
    if first.start == first.end or second.start == second.end:
        return first.start <= second.end and second.start <= first.end
    return first.start < second.end and second.start < first.end


def hunks(edits: Sequence[Edit]) -> tuple[Hunk, ...]:
    """The lines that edits of one source change, top down; edits of the same lines together."""
    groups: list[list[Edit]] = []
    for edit in sorted(edits, key=_location):
        if groups and edit.span.line <= _last_line(groups[-1][-1]):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return tuple(map(_hunk, groups))


def _hunk(edits: Sequence[Edit]) -> Hunk:
    source, line = edits[0].span.source, edits[0].span.line
    start = edits[0].span.start - edits[0].span.column + 1
    end = source.text.find("\n", edits[-1].span.end)
    end = len(source.text) if end < 0 else end
    before = source.text[start:end]
    moved = [Edit(_shifted(edit, -start), edit.text) for edit in edits]
    return Hunk(line, _lines(before), _lines(apply(before, moved)))


def _shifted(edit: Edit, by: int) -> Span:
    return Span(edit.span.source, edit.span.start + by, edit.span.end + by)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.split("\n"))


def _last_line(edit: Edit) -> int:
    return edit.span.source.position(edit.span.end)[0]


def _location(edit: Edit) -> tuple[int, int]:
    return edit.span.start, edit.span.end
