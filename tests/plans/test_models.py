"""What becomes of the standard models is what stands in `models.sums`."""

from tests.plans.models import FILE, described


def test_the_standard_models_become_what_they_became() -> None:
    assert "\n".join(described()).lstrip() + "\n" == FILE.read_text()
