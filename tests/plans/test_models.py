"""The stages of the standard models are those in `models.snap`."""

from tests.plans.models import SNAPSHOT


def test_the_standard_models_become_what_they_became() -> None:
    SNAPSHOT.check()
