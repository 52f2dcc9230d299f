"""Thresholds between ways to compute stand where they stood."""

from tests.plans.boundaries import SNAPSHOT


def test_every_threshold_is_where_it_was() -> None:
    SNAPSHOT.check()
