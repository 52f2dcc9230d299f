"""Runs tell and write what they told and wrote."""

import re

import pytest

from tests.runtime.train.recorded_runs import FILE, described

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def test_runs_tell_and_write_what_they_did() -> None:
    """Sums of another order may have other last digits."""
    written, found = FILE.read_text().splitlines(), list(described())
    assert [NUMBER.sub("", line) for line in found] == [NUMBER.sub("", line) for line in written]
    for now, then in zip(found, written, strict=True):
        numbers = [float(each) for each in NUMBER.findall(then)]
        assert [float(each) for each in NUMBER.findall(now)] == pytest.approx(
            numbers, rel=1e-3, abs=1e-4
        ), then
