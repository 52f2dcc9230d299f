"""Standard files and programs of pages are formatted as `formatted.snap` says, at any width."""

from tests.dsl.syntax.formatted import SNAPSHOT


def test_programs_are_formatted_as_they_were() -> None:
    SNAPSHOT.check()
