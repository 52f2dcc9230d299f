"""Runs are fed, in their order, what stands in `fed_runs.txt`, or refused in its words."""

from tests.runtime.train.fed_runs import FILE, described


def test_runs_are_fed_what_they_were_fed() -> None:
    assert "\n".join(described()) + "\n" == FILE.read_text()
