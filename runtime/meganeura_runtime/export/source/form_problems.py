"""Problems of writing a model as source of another system."""

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class NoSourceForm(Problem, code="E0598", topic="export"):
    """A part of a program is not written as source of another system."""

    what: str
    reason: str
    span: Span | None

    def report(self) -> Report:
        return self.message(
            f"{self.what} is not written as source",
            *(() if self.span else (Remark("reason", self.reason),)),
            span=self.span,
            label=self.reason,
            cure=Help("nothing was written"),
        )


def refusal(what: str, reason: str, span: Span | None) -> ProblemError:
    """The error that a part of a program is not written."""
    return ProblemError(NoSourceForm(what, reason, span))
