"""Texts of graphs of which a word is another are read, or refused, as they were."""

from tests.dsl.ir.read_texts import SNAPSHOT


def test_what_is_read_is_what_was() -> None:
    SNAPSHOT.check()
