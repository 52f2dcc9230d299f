"""Draws reports for a terminal: with carets under the user's own code, or as one line.

A line of code is shown in a window of at most `WIDTH` columns. A fix is shown as a diff, below
`help` if it is safe, and below `suggestion` if it changes what the program means.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from meganeura_dsl.diagnostics.characters import CUT, printable, width
from meganeura_dsl.diagnostics.fixes import Hunk, hunks
from meganeura_dsl.diagnostics.report import (
    Applicability,
    Edit,
    Help,
    Label,
    Remark,
    Report,
    Severity,
)
from meganeura_dsl.diagnostics.source import Span

WIDTH = 100
"""Columns a line of code, with its place and its carets, may take."""

TOPIC_COLUMN = 77
WIDEST_PLACE, WIDEST_TITLE = 32, 18
HELP_INDENT = " " * 8
LONGEST_DIFF = 13
PATH_TITLE = "in layer"

BOLD, CYAN = "1", "36"
SEVERITY_COLOUR = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: "1;36"}
DIFF_COLOUR = {"-": "31", "+": "32"}

Paint = Callable[[str, str], str]
"""Gives a text a colour, or leaves it as it is."""


# --- text on a terminal --------------------------------------------------------------------------


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """True if a stream takes colours.

    By `NO_COLOR`, then `FORCE_COLOR`, then if it is a terminal.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def render(report: Report, *, colour: bool = False) -> str:
    """The message as people read it, without a line break at its end."""
    paint = _ansi if colour else _plain
    margin = _margin(report)
    lines = [_headline(report, paint)]
    if report.label is not None:
        lines.extend(_code(report.label, margin, SEVERITY_COLOUR[report.severity], paint))
    if report.path:
        lines.extend(_remark(Remark(PATH_TITLE, report.path), margin, paint))
    for remark in report.remarks:
        lines.extend(_remark(remark, margin, paint))
    if report.help is not None:
        lines.extend(_help(report.help, paint))
    return "\n".join(line.rstrip() for line in lines)


def render_short(report: Report) -> str:
    """One line, `file:line:column: error[E0301]: headline`, as editors and grep expect it."""
    head = f"{report.severity.value}[{report.code}]: {printable(report.headline)}"
    if report.label is None:
        return head
    span = report.label.span
    return f"{_location(span)}:{span.column}: {head}"


def _headline(report: Report, paint: Paint) -> str:
    kind = f"{report.severity.value}[{report.code}]"
    text = f": {printable(report.headline)}"
    topic = f"({report.topic})"
    used = len(kind) + width(text)
    gap = max(TOPIC_COLUMN - used, 2)
    shown = paint(kind, SEVERITY_COLOUR[report.severity]) + paint(text, BOLD)
    if gap == 2 and used + gap + len(topic) > WIDTH:
        return shown
    return shown + " " * gap + topic


def _margin(report: Report) -> int:
    """Columns of the left side, where places and titles stand; the overlong do not count."""
    titles = [width(printable(remark.title)) for remark in report.remarks]
    if report.path:
        titles.append(len(PATH_TITLE))
    location = 0 if report.label is None else width(_location(report.label.span))
    fitting = [each for each in titles if each <= WIDEST_TITLE]
    return max(location if location <= WIDEST_PLACE else 0, *fitting, 0)


def _code(label: Label, margin: int, colour: str, paint: Paint) -> Iterator[str]:
    """The line of code beside its place, and below it the carets with the label's text."""
    location = _location(label.span)
    indent = " " * (margin + 4)
    excerpt = _excerpt(label.span, WIDTH - len(indent))
    if width(location) <= margin:
        yield f"  {paint(location, CYAN)}{_fill(location, margin)}  {excerpt.text}"
    else:
        yield f"  {paint(location, CYAN)}"
        yield f"{indent}{excerpt.text}"
    for line in _under(excerpt, label.text, WIDTH - len(indent)):
        blank = len(line) - len(line.lstrip())
        yield indent + line[:blank] + paint(line[blank:], colour)


def _under(excerpt: "Excerpt", text: str, room: int) -> Iterator[str]:
    """The carets and the label's text: beside them if it fits, else below and further left."""
    carets = " " * excerpt.start + "^" * (excerpt.end - excerpt.start)
    lines = [printable(line) for line in text.split("\n")]
    widest = max(width(line) for line in lines)
    if excerpt.end + 1 + widest <= room:
        yield f"{carets} {lines[0]}"
        yield from (" " * (excerpt.end + 1) + line for line in lines[1:])
        return
    yield carets
    yield from (" " * max(0, min(excerpt.start, room - widest)) + line for line in lines)


def _remark(remark: Remark, margin: int, paint: Paint) -> Iterator[str]:
    """`  for example    h=7`: the title, its own place if it has one, and the text."""
    title = printable(remark.title)
    first, *rest = [printable(line) for line in remark.text.split("\n")]
    if remark.span is not None:
        code = first or _excerpt(remark.span, WIDTH - margin - 8).text
        first = f"{paint(_location(remark.span), CYAN)}  {code}"
    lead = f"  {paint(title, BOLD)}{_fill(title, margin)}  " if title else "  "
    indent = " " * (margin + 4) if title else "  "
    yield lead + first
    yield from (indent + line for line in rest)


def _help(advice: Help, paint: Paint) -> Iterator[str]:
    """The advice, and the code to write: below it if it is a fix or long, else beside it."""
    first, *rest = [printable(line) for line in advice.text.split("\n")]
    code = [] if advice.code is None else [printable(line) for line in advice.code.split("\n")]
    is_guess = advice.applicability is Applicability.SUGGESTED
    lead = f"  {paint('suggestion:' if is_guess else 'help:', BOLD)} "
    if len(code) == 1 and not advice.edits and not rest:
        beside = f"{lead}{first}     {code[0]}"
        if len("  help: ") + width(first) + 5 + width(code[0]) <= WIDTH:
            yield beside
            return
    yield lead + first
    yield from (HELP_INDENT + line for line in rest)
    if advice.edits:
        yield from (f"{HELP_INDENT}{line}" for line in diff(advice.edits, paint=paint))
        return
    yield from (HELP_INDENT + line for line in code)


def diff(edits: Sequence[Edit], *, paint: Paint | None = None) -> Iterator[str]:
    """`12 - x = y` and `12 + x = z`: lines that go, and lines that come."""
    paint = paint or _plain
    lines = [line for change in hunks(edits) for line in _changed_lines(change)]
    shown = lines if len(lines) <= LONGEST_DIFF else lines[: LONGEST_DIFF - 1]
    digits = max(len(str(number)) for number, *_ in shown)
    room = WIDTH - len(HELP_INDENT) - digits - len(" - ")
    for number, sign, line, column in shown:
        mark = paint(f"{number:>{digits}} {sign}", DIFF_COLOUR[sign])
        yield f"{mark} {_cut(line, column, room)}"
    if len(lines) > len(shown):
        yield f"{CUT} and {len(lines) - len(shown)} more lines"


def _changed_lines(change: Hunk) -> Iterator[tuple[int, str, str, int]]:
    """Each line that goes or comes: its number, `-` or `+`, its text, and a column to show."""
    column = _first_difference(change)
    for sign, lines in (("-", change.before), ("+", change.after)):
        for number, line in enumerate(lines, change.line):
            yield number, sign, line, min(column, len(line)) if number == change.line else 0


def _first_difference(change: Hunk) -> int:
    """The column, from 0, in which the first lines of a change begin to differ."""
    before, after = change.before[0], change.after[0]
    columns = range(min(len(before), len(after)))
    return bisect_left(columns, 1, key=lambda end: before[: end + 1] != after[: end + 1])


def _cut(line: str, column: int, room: int) -> str:
    """A line as it is shown, cut to a number of columns around one that stays."""
    low, high = _window(line, (0, len(line)), (column, column + 1), room)
    head, tail = CUT if low else "", CUT if high < len(line) else ""
    return head + printable(line[low:high]) + tail


# --- one line of code ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of code as it is shown, and the columns [start, end) its carets stand under."""

    text: str
    start: int
    end: int


def _excerpt(span: Span, room: int) -> Excerpt:
    """The first line of a span, without its indentation, cut to a number of columns."""
    line, column = span.source.position(span.start)
    code = span.source.line(line)
    if not code.strip() and span.start + len(code) >= len(span.source.text):
        return Excerpt("(end of file)", 0, 1)
    start = min(column - 1, len(code))
    first = min(len(code) - len(code.lstrip()), start)
    last = max(len(code.rstrip()), start + 1)
    stop = max(start + 1, min(start + span.end - span.start, last))
    low, high = _window(code, (first, last), (start, stop), room)
    before = (CUT if low > first else "") + printable(code[low:start])
    inside = printable(code[start : min(stop, high)])
    after = printable(code[min(stop, high) : high]) + (CUT if high < last else "")
    return Excerpt(before + inside + after, width(before), width(before) + max(width(inside), 1))


def _window(code: str, whole: tuple[int, int], span: tuple[int, int], room: int) -> tuple[int, int]:
    """The part of `code[whole]` that fits into `room` columns and keeps the start of the span.

    Characters are dropped from the side with more to spare. No more than `room` characters are
    looked at on either side, so that a line of any length, or of marks without width, is cheap.
    """
    start, stop = span
    low, high = max(whole[0], start - room), min(whole[1], start + room)
    excess = sum(width(printable(char)) for char in code[low:high]) - room
    if excess <= 0 and (low, high) == whole:
        return whole
    excess += 2 * len(CUT)
    while excess > 0 and (low < start or high > start + 1):
        if start - low > high - stop and low < start:
            excess -= width(printable(code[low : low + 1]))
            low += 1
        else:
            high -= 1
            excess -= width(printable(code[high : high + 1]))
    return low, high


def _location(span: Span) -> str:
    return f"{printable(span.source.name)}:{span.line}"


def _fill(text: str, columns: int) -> str:
    return " " * (columns - width(text))


def _plain(text: str, code: str) -> str:  # noqa: ARG001 - the signature of Paint
    return text


def _ansi(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else text
