"""Positions count code units, and lines end as the protocol says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position, PositionEncodingKind

from meganeura.language_server.positions import Positions

ENCODINGS = [PositionEncodingKind.Utf8, PositionEncodingKind.Utf16, PositionEncodingKind.Utf32]
TEXTS = st.text(st.sampled_from("aä🎉e\u0301\n\r\u2028"), max_size=20)


@pytest.mark.parametrize(("encoding", "column"), [*zip(ENCODINGS, (8, 5, 4), strict=True)])
def test_columns_count_code_units(encoding: str, column: int) -> None:
    positions = Positions("x\n#ä🎉!!", encoding)
    assert positions.position(6) == Position(1, column)
    assert positions.offset(Position(1, column)) == 6


@given(TEXTS, st.sampled_from(ENCODINGS))
def test_an_offset_comes_back(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        is_inside_a_line_end = text[offset - 1 : offset + 1] == "\r\n"
        if not is_inside_a_line_end:
            assert positions.offset(positions.position(offset)) == offset


def test_what_is_behind_a_line_or_the_text_is_its_end() -> None:
    positions = Positions("ab\r\ncd")
    assert positions.offset(Position(0, 99)) == 2
    assert positions.offset(Position(9, 0)) == 6


def test_the_middle_of_an_emoji_is_its_start() -> None:
    assert Positions("🎉b").offset(Position(0, 1)) == 0
