"""The samples of all ops, and contractions in every config, have the plans of `cases.sums`."""

from tests.plans.cases import FILE, described


def test_every_case_is_planned_as_it_was() -> None:
    assert "\n".join(described()) + "\n" == FILE.read_text()
