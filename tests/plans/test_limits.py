"""Small graphs are planned for other limits as they were."""

from tests.plans.limits import FILE, described


def test_limits_are_kept_as_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()
