"""Reports as workflow commands of GitHub Actions, which shows them beside the changed lines.

Their form and its escapes are those of https://github.com/actions/toolkit, `core/src/command.ts`.
"""

from meganeura_dsl.diagnostics.characters import safe
from meganeura_dsl.diagnostics.plain_text import plain_text
from meganeura_dsl.diagnostics.problem import Report, Severity
from meganeura_dsl.diagnostics.source import Span

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotation(report: Report) -> str:
    """One line, `::error file=net.mgn,line=3,...,title=E0301::message`."""
    location = {} if report.label is None else _location(report.label.span)
    properties = {**location, "title": report.code}
    written = ",".join(f"{name}={_property(str(each))}" for name, each in properties.items())
    return f"::{COMMANDS[report.severity]} {written}::{_data(plain_text(report))}"


def _location(span: Span) -> dict[str, str | int]:
    """File, lines and columns; GitHub takes no columns of a range over several lines."""
    end_line, end_column = span.source.position(span.end)
    location: dict[str, str | int] = {
        "file": span.source.name,
        "line": span.line,
        "endLine": end_line,
    }
    if end_line == span.line:
        location |= {"col": span.column, "endColumn": end_column}
    return location


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(safe(text)).replace(":", "%3A").replace(",", "%2C")
