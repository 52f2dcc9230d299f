"""A check says of declarations, alone and two together, what stands in `checked.txt`."""

from tests.dsl.checked import FILE, described


def test_a_check_says_what_it_said() -> None:
    assert list(described()) == FILE.read_text().splitlines()
