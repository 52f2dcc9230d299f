"""Messages say what they said, whatever they speak of."""

from tests.problem_variants import FILE, described


def test_every_message_says_what_it_said() -> None:
    assert list(described()) == FILE.read_text().splitlines()
