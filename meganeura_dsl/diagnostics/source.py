"""Source text and places in it, so that every later stage can point at what the user wrote."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

_LINE_BREAK = re.compile("\n")


@dataclass(frozen=True, eq=False)
class Source:
    """One .mgn text and the name it is shown under (usually its path)."""

    name: str
    text: str = field(repr=False)
    _line_starts: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]
        object.__setattr__(self, "_line_starts", starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of one line, counted from 1, without its line break."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range of characters [start, end) of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters of the span."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.source.position(self.start)[1]

    def contains(self, other: "Span") -> bool:
        """True if another span is a part of this one."""
        return self.source is other.source and self.start <= other.start and other.end <= self.end

    def until(self, other: "Span") -> "Span":
        """The span from the start of this one to the end of another of the same source."""
        return Span(self.source, self.start, max(self.end, other.end))
