"""Tuning tries the ways that stand in `ways.txt`."""

from tests.runtime.backends.webgpu.tuning.ways import FILE, described


def test_the_ways_are_those_that_were_tried() -> None:
    assert list(described()) == FILE.read_text().splitlines()
