"""Problems of ragged examples."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_runtime.io.data.data_problems import DataProblem


class RaggedData(DataProblem, code="E0578"):
    """Data of ragged examples is not what the program's ragged sizes say."""

    headline: str
    remarks: tuple[tuple[str, str], ...]
    cure: str

    def report(self) -> Report:
        remarks = [Remark(title, text) for title, text in self.remarks]
        return self.words(self.headline, remarks, Help(self.cure))


class NoRaggedRun(Problem, code="E0579", topic="data"):
    """Something cannot be done with ragged examples."""

    span: Span | None
    what: str

    def report(self) -> Report:
        return self.message(
            f"{self.what} cannot be had with ragged sizes",
            span=self.span,
            cure=Help(
                "such examples are read from one file or from arrays, and a step is one update\n"
                "on one device; without `each` their rows are padded to one size"
            ),
        )
