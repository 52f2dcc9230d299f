"""Commands say, and write, what stands in `said.sums`."""

from tests.cli.said import FILE, described


def test_commands_say_what_they_said() -> None:
    assert list(described()) == FILE.read_text().splitlines()
