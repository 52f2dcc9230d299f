"""The programs of the specification are formatted as `formatted.sums` says, at any width."""

from tests.dsl.syntax.formatted import FILE, described


def test_programs_are_formatted_as_they_were() -> None:
    """Pages change; what stays of them is formatted as it was."""
    before = dict(line.split() for line in FILE.read_text().splitlines())
    now = described()
    same = before.keys() & now.keys()
    assert len(same) > 0.8 * len(now)
    assert {of: now[of] for of in same} == {of: before[of] for of in same}
