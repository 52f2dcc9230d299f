"""Annotations of GitHub Actions: one line each, whatever the message and the file's name hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from meganeura_dsl.diagnostics.github import annotation
from meganeura_dsl.diagnostics.problem import Help, Label, Report, Severity
from meganeura_dsl.diagnostics.source import Source, Span

SOURCE = Source("nets/net.mgn", "x = y\nz = w\n")


def report(
    start: int = 4,
    end: int = 5,
    *,
    source: Source = SOURCE,
    text: str = "here",
    severity: Severity = Severity.ERROR,
) -> Report:
    return Report("E0301", severity, "wrong", "test", Label(Span(source, start, end), text))


def test_a_whole_annotation() -> None:
    assert annotation(report()) == (
        "::error file=nets/net.mgn,line=1,endLine=1,col=5,endColumn=6,title=E0301::wrong%0Ahere"
    )


@pytest.mark.parametrize(
    ("severity", "command"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "notice")],
)
def test_severities(severity: Severity, command: str) -> None:
    assert annotation(report(severity=severity)).startswith(f"::{command} file=")


def test_a_range_over_several_lines_has_no_columns() -> None:
    shown = annotation(report(4, 9))
    assert "file=nets/net.mgn,line=1,endLine=2,title=E0301::" in shown


def test_a_report_of_no_place_has_only_its_title() -> None:
    shown = annotation(Report("E0119", Severity.ERROR, "no", "file", None, help=Help("look")))
    assert shown == "::error title=E0119::no%0Ahelp: look"


def test_what_commands_are_made_of_is_escaped() -> None:
    source = Source("a,b:c%d\r\n::error ::.mgn", "x")
    shown = annotation(report(0, 1, source=source, text="100%\r\n::error ::e, f: g"))
    assert "file=a%2Cb%3Ac%25d" in shown
    assert "%0A%3A%3Aerror %3A%3A.mgn," in shown
    assert shown.endswith("%0A::error ::e, f: g")
    assert "100%25" in shown


@given(name=some.text(), text=some.text())
def test_an_annotation_is_one_command(name: str, text: str) -> None:
    shown = annotation(report(0, 1, source=Source(name, "x"), text=text))
    assert len(shown.splitlines()) == 1
    head, _, data = shown[2:].partition("::")
    command, _, properties = head.partition(" ")
    pairs = dict(each.split("=", 1) for each in properties.split(","))
    assert command == "error"
    assert set(pairs) == {"file", "line", "endLine", "col", "endColumn", "title"}
    assert data.startswith("wrong")
