"""Characters of a text by anybody that reach a terminal, and their width there."""

import pytest

from meganeura_dsl.diagnostics.characters import LONGEST_TEXT, printable, safe, width


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        ("", "", ""),
        ("größe 中", "größe 中", "größe 中"),
        ("é\x1b[31m中", r"é\x1b[31m中", r"é\x1b[31m中"),
        ("é\tb\nc", r"é    b\nc", "é\tb\nc"),
        ("é\r\n\x00\x7f", r"é\r\n\x00\x7f", "é\\r\n\\x00\\x7f"),
        ("a\u202eb\u200b\ufeff", r"a\u202eb\u200b\ufeff", r"a\u202eb\u200b\ufeff"),
        ("\U000e0001\ud800", r"\U000e0001\ud800", r"\U000e0001\ud800"),
    ],
)
def test_only_what_has_no_glyph_is_escaped(text: str, line: str, lines: str) -> None:
    assert (printable(text), safe(text)) == (line, lines)


@pytest.mark.parametrize("char", ["a", "\x1b"])
def test_one_line_is_cut_and_lines_are_not(char: str) -> None:
    shown = printable(char)
    assert printable(char * LONGEST_TEXT) == shown * LONGEST_TEXT
    assert printable(char * (LONGEST_TEXT + 1)) == shown * LONGEST_TEXT + "..."
    assert safe(char * (LONGEST_TEXT + 1)) == shown * (LONGEST_TEXT + 1)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("é", 1), ("e\u0301", 1), ("中文", 4), ("\uff21b", 3), ("a\u20dd", 1), ("", 0)],
)
def test_how_wide_a_text_is(text: str, columns: int) -> None:
    assert width(text) == columns
