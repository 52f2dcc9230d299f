"""A check of a text, and the codes that it tells with their lines."""

from textwrap import dedent

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import CheckResult, check


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", dedent(text)), lambda _: None)


def codes(text: str) -> list[tuple[str, int]]:
    reports = checked(text).reports
    return [(report.code, report.label.span.line) for report in reports if report.label]
