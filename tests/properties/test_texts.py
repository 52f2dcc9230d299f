"""Random programs and mutants become what they became; the graphs of them are tested elsewhere."""

from tests.effort import effort
from tests.properties.texts import said_of, sections


def test_every_text_becomes_what_it_became() -> None:
    written = dict([*sections()][:: effort(10, 1)])
    assert {text: said_of(text) for text in written} == written
