"""Lays out one logical line of canonical text over as many lines as it needs.

A phrase is a sequence of texts, marks and breaks. A mark remembers the column in which it came to
stand; a break may begin a new line, aligned with a mark before it. Breaks that the writer made are
kept. Where a line is too long all the same, the weakest break on it is made, and of several equally
weak ones the last that helps, until every line fits or has no break left. So laying out what was
laid out changes nothing.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.source import Span

WIDTH = 100
"""Columns of the longest line, where there is a choice."""
HEADER_INDENT = 4
"""Columns by which the further lines of a header are indented, which its body is by 2."""


@dataclass(eq=False)
class Mark:
    """A place in a phrase, and the column it has come to stand in."""

    column: int = 0


@dataclass(frozen=True, eq=False)
class Break:
    """A place where a line may end: the next begins `shift` columns from the mark.

    `rank` is how firmly it holds together what it separates, and `joint` what is written where it
    does. Comments that stand before the offset `position` in the source come before the break.
    """

    mark: Mark
    rank: int
    position: int
    is_written: bool
    joint: str = " "
    shift: int = 0
    closes: bool = False
    """True if the bracket that ends an indented list follows, in the column of its mark."""


Item = str | Mark | Break


class Comments:
    """The comments of a text that are yet to be written."""

    def __init__(self, comments: Iterable[Span]) -> None:
        self._pending = deque(comments)

    def first(self, before: int) -> Span | None:
        """The next comment, if it stands before an offset of the source."""
        return self._pending[0] if self._pending and self._pending[0].start < before else None

    def take(self, before: int) -> list[Span]:
        """Remove and return the comments before an offset of the source."""
        taken: list[Span] = []
        while self.first(before):
            taken.append(self._pending.popleft())
        return taken


def fits(columns: int) -> bool:
    """True if a line of so many columns is no longer than lines are."""
    return columns <= WIDTH


def is_alone(comment: Span) -> bool:
    """True if nothing but the comment stands on its line."""
    return comment.source.line(comment.line).lstrip().startswith("#")


def with_comment(code: str, comment: Span) -> str:
    """A line with a comment at its end, in the column it had if there is room."""
    return code.ljust(max(len(code) + 2, comment.column - 1)) + comment.text.rstrip()


def lay_out(items: Sequence[Item], indent: int, comments: Comments, end: int) -> list[str]:
    """The lines of a phrase, with its comments: those before the offset `end` of the source."""
    lines: list[str] = []
    margin, start = indent, 0
    while start < len(items):
        stop = _line_end(items, start, margin, comments)
        code = " " * margin + "".join(_written(item) for item in items[start:stop])
        lines.append(code)
        start = stop + 1
        if stop == len(items):
            break
        joint = items[stop]
        if isinstance(joint, Break):
            margin = joint.mark.column + joint.shift
            margin = margin if joint.closes else max(indent + 2, margin)
            for comment in comments.take(joint.position):
                if is_alone(comment):
                    lines.append(" " * margin + comment.text.rstrip())
                else:
                    lines[-1] = with_comment(lines[-1], comment)
    for comment in comments.take(end):
        lines[-1] = with_comment(lines[-1], comment)
    return lines


def _written(item: Item) -> str:
    match item:
        case str():
            return item
        case Mark():
            return ""
        case Break():
            return item.joint


def _line_end(items: Sequence[Item], start: int, column: int, comments: Comments) -> int:
    """The index of the break that ends the line begun at `start`, or the number of items."""
    best: tuple[int, int] | None = None
    for index in range(start, len(items)):
        item = items[index]
        if isinstance(item, Mark):
            item.column = column
        elif isinstance(item, Break):
            if item.is_written or comments.first(item.position):
                return index
            if best is None or (column <= WIDTH and item.rank <= best[0]):
                best = item.rank, index
        column += len(_written(item))
        if column > WIDTH and best is not None:
            return best[1]
    return len(items)
