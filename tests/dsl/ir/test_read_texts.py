"""Texts of graphs of which a word is another are read, or refused, as they were."""

from tests.dsl.ir.read_texts import FILE, described


def test_what_is_read_is_what_was() -> None:
    assert list(described()) == FILE.read_text().splitlines()
