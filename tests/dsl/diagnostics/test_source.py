"""Offsets become lines and columns, wherever they are and however lines end."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from meganeura_dsl.diagnostics.source import Source, Span


@pytest.mark.parametrize(
    ("text", "offset", "position"),
    [
        ("", 0, (1, 1)),
        ("ab", 0, (1, 1)),
        ("ab", 2, (1, 3)),
        ("ab\ncd", 2, (1, 3)),
        ("ab\ncd", 3, (2, 1)),
        ("ab\n", 3, (2, 1)),
        ("a\r\nb", 3, (2, 1)),
        ("\n\n\n", 2, (3, 1)),
    ],
    ids=ascii,
)
def test_position(text: str, offset: int, position: tuple[int, int]) -> None:
    assert Source("net.mgn", text).position(offset) == position


def test_lines_come_without_their_breaks() -> None:
    source = Source("net.mgn", "a\r\n b\n\nc")
    assert [source.line(number) for number in (1, 2, 3, 4)] == ["a", " b", "", "c"]


def test_only_line_feeds_end_a_line() -> None:
    source = Source("net.mgn", "a\x0bb\u2028c\nd")
    assert source.line(1) == "a\x0bb\u2028c"
    assert source.position(6) == (2, 1)


@given(some.text(alphabet="ab\n", max_size=30))
def test_position_is_where_the_line_holds_the_character(text: str) -> None:
    source = Source("net.mgn", text)
    for offset, char in enumerate(text):
        line, column = source.position(offset)
        assert (source.line(line) + "\n")[column - 1] == char


def test_span() -> None:
    source = Source("net.mgn", "x = 1\n  y = 22\n")
    span = Span(source, 8, 14)
    assert (span.text, span.line, span.column) == ("y = 22", 2, 3)


def test_span_until_covers_both() -> None:
    source = Source("net.mgn", "a + b * c")
    first, inner, whole = Span(source, 0, 1), Span(source, 4, 5), Span(source, 0, 9)
    assert first.until(inner).text == "a + b"
    assert whole.until(inner).text == "a + b * c"
