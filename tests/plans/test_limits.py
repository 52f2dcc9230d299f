"""Small graphs are planned for other limits as they were."""

from tests.plans.limits import SNAPSHOT


def test_limits_are_kept_as_they_were() -> None:
    SNAPSHOT.check()
