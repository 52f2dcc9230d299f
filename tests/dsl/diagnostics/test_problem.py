"""Problems are collected once each, in order, and only errors count as errors."""

from typing import ClassVar

import pytest

from meganeura_dsl.diagnostics.problem import (
    Problem,
    ProblemError,
    ProblemsError,
    Report,
    Severity,
    Sink,
)
from meganeura_dsl.diagnostics.source import Source, Span


class Wrong(Problem, code="E0999", topic="test"):
    """An error, at a place or at none."""

    headline: str
    span: Span | None = None

    def report(self) -> Report:
        return self.message(self.headline, span=self.span)


class Remarkable(Wrong):
    """A note of the same words."""

    severity: ClassVar[Severity] = Severity.NOTE


def test_sink_keeps_each_report_once_in_order() -> None:
    sink = Sink()
    for headline in ("b", "a", "b"):
        sink.add(Wrong(headline))
    assert [report.headline for report in sink.reports] == ["b", "a"]
    assert [problem.report() for problem in sink] == list(sink.reports)
    assert len(sink) == 2


def test_same_words_at_another_place_are_another_report() -> None:
    source = Source("net.mgn", "x\nx\n")
    sink = Sink()
    sink.add(Wrong("unknown", Span(source, 0, 1)))
    sink.add(Wrong("unknown", Span(source, 2, 3)))
    sink.add(Wrong("unknown", Span(source, 0, 1)))
    assert len(sink) == 2


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        ((), False),
        ((Remarkable("a"),), False),
        ((Remarkable("a"), Wrong("b")), True),
        ((Wrong("b"), Remarkable("a")), True),
    ],
)
def test_only_errors_fail(problems: tuple[Problem, ...], *, expected: bool) -> None:
    sink = Sink()
    for problem in problems:
        sink.add(problem)
    assert sink.has_errors is expected


def test_an_uncaught_problem_still_tells_its_place() -> None:
    source = Source("net.mgn", "a\nb\n")
    error = ProblemError(Wrong("bad", Span(source, 2, 3)))
    assert error.summary == "net.mgn:2: error[E0999]: bad"
    assert [line.split() for line in str(error).splitlines()] == [
        ["error[E0999]:", "bad", "(test)"],
        ["net.mgn:2", "b"],
        ["^"],
    ]
    assert ProblemError(Wrong("bad")).summary == "error[E0999]: bad"
    assert str(ProblemsError((error.problem, error.problem))) == f"{error}\n\n{error}"
