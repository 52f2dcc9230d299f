"""Messages say what they said, whatever they speak of."""

from tests.problem_variants import SNAPSHOT


def test_every_message_says_what_it_said() -> None:
    SNAPSHOT.check()
