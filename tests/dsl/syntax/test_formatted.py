"""The programs of the specification are formatted as `formatted.sums` says, at any width."""

from tests.dsl.syntax.formatted import FILE, described


def test_programs_are_formatted_as_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()
