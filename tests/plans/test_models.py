"""What becomes of the standard models is what stands in `models.snap`."""

from tests.plans.models import SNAPSHOT


def test_the_standard_models_become_what_they_became() -> None:
    SNAPSHOT.check()
