"""The samples of all ops, and contractions in every config, have the plans of `cases.snap`."""

from tests.plans.cases import SNAPSHOT


def test_every_case_is_planned_as_it_was() -> None:
    SNAPSHOT.check()
