"""Libraries behind extras: one that is missing, or cannot be loaded, is named with its extra."""

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.support import optional_imports
from meganeura_runtime.support.optional_imports import load


@pytest.mark.parametrize("error", [ImportError, ModuleNotFoundError, OSError])
def test_what_cannot_be_loaded_is_named_with_its_extra(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of C that is not there is an `OSError`, as of soundfile."""

    def refuse(name: str) -> None:
        raise error(name)

    monkeypatch.setattr(optional_imports, "import_module", refuse)
    with pytest.raises(ProblemError) as refusal:
        load("soundfile", "audio", "read sounds")
    report = refusal.value.problem.report()
    assert report.headline == "`soundfile` is not installed, and is needed to read sounds"
    assert report.help is not None
    assert report.help.code == install_command("audio")


def test_what_is_there_is_given() -> None:
    assert load("json", "audio", "read sounds").loads("1") == 1
