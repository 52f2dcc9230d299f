"""Optimizing small models reports what stands in `reports.txt`."""

from tests.dsl.transforms.egraph.reports import FILE, described


def test_what_is_reported_is_what_was() -> None:
    assert list(described()) == FILE.read_text().splitlines()
