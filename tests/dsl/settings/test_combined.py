"""Settings give, alone and two together, what stands in `combined.txt`."""

from tests.dsl.settings.combined import FILE, described


def test_settings_give_what_they_gave() -> None:
    assert "\n".join(described()) + "\n" == FILE.read_text()
