"""Programs that are refused with a cure, and are fine where the cure is written."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")


def errors(text: str) -> list[Report]:
    found = check(Source("net.mgn", text), LOAD).reports
    return [each for each in found if each.severity is Severity.ERROR]


def follow(text: str, code: str, cure: str | None, edits: dict[str, str]) -> None:
    """Asserts that the first error has this code and cure, and that the edits end all errors."""
    first = errors(text)[0]
    assert first.help is not None
    assert (first.code, first.help.code) == (code, cure)
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    assert errors(text) == []
