"""Thresholds between ways to compute stand where they stood."""

from tests.plans.boundaries import FILE, described


def test_every_threshold_is_where_it_was() -> None:
    assert list(described()) == FILE.read_text().splitlines()
