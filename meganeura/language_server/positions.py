"""Positions of the protocol: lines from 0, and columns in the code units that the client counts in.

Offsets of a `Source` count characters. UTF-16 is what every client knows: an emoji is two units.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from lsprotocol.types import Position, PositionEncodingKind, Range

from meganeura_dsl.diagnostics.source import Source, Span

_LINE_END = re.compile(r"\r\n|\n|\r")


def _utf16(text: str) -> int:
    return len(text) + sum(each > "\uffff" for each in text)


def _utf8(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


UNITS: dict[str, Callable[[str], int]] = {
    PositionEncodingKind.Utf8: _utf8,
    PositionEncodingKind.Utf16: _utf16,
    PositionEncodingKind.Utf32: len,
}
"""The length of a text in the code units of each encoding."""


class Positions:
    """Converts between the offsets of one text and the positions of the protocol."""

    def __init__(self, text: str, encoding: str = PositionEncodingKind.Utf16) -> None:
        self._text = text
        self._units = UNITS[encoding]
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """The position of a character."""
        line = bisect_right(self._starts, offset) - 1
        return Position(line, self._units(self._text[self._starts[line] : offset]))

    def range(self, span: Span) -> Range:
        """The range of a span of this text."""
        return Range(self.position(span.start), self.position(span.end))

    def offset(self, position: Position) -> int:
        """The offset of a position; behind the end of a line is its end, as the protocol says."""
        if position.line >= len(self._starts):
            return len(self._text)
        start = self._starts[position.line]
        end = _LINE_END.search(self._text, start)
        line = self._text[start : end.start() if end else len(self._text)]
        if self._units is len or line.isascii():
            return start + min(position.character, len(line))
        passed = 0
        for index, each in enumerate(line):
            passed += self._units(each)
            if passed > position.character:
                return start + index
        return start + len(line)

    def whole(self) -> Range:
        """The range of all of the text."""
        return Range(Position(0, 0), self.position(len(self._text)))


@lru_cache(maxsize=64)
def positions_of(source: Source, encoding: str = PositionEncodingKind.Utf16) -> Positions:
    """The positions of a source, which are computed once."""
    return Positions(source.text, encoding)
