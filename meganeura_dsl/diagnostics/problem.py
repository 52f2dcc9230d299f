"""Problems of a program, as data. Each renderer is a module beside this one."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from traceback import extract_tb
from types import ModuleType
from typing import ClassVar, dataclass_transform

from meganeura_dsl.diagnostics.report import (
    Applicability,
    Edit,
    Help,
    Label,
    Remark,
    Report,
    Severity,
    safe_fix,
    suggested_fix,
)
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.terminal import render

__all__ = [
    "Applicability",
    "Edit",
    "Help",
    "Label",
    "Problem",
    "ProblemError",
    "ProblemsError",
    "Remark",
    "Report",
    "Severity",
    "Sink",
    "problems_in",
    "safe_fix",
    "suggested_fix",
]


_CELL = re.compile(r"^<ipython-input|[/\\]ipykernel_\d+[/\\]")
"""The names of files that IPython gives to cells."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Problem(ABC):
    """One kind of mistake, a frozen dataclass.

    `meganeura_dsl/diagnostics/message_pages.py` reads the page of a kind.
    """

    code: ClassVar[str]
    topic: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR

    def __init_subclass__(
        cls, *, code: str = "", topic: str = "", severity: Severity | None = None
    ) -> None:
        """Sets the fields of a class of problems; those left out are the base class's."""
        super().__init_subclass__()
        dataclass(frozen=True)(cls)
        if code:
            cls.code = code
        if topic:
            cls.topic = topic
        if severity is not None:
            cls.severity = severity

    @abstractmethod
    def report(self) -> Report:
        """The words for this problem."""

    def message(
        self,
        headline: str,
        *remarks: Remark,
        span: Span | None = None,
        label: str = "",
        cure: Help | None = None,
        path: str = "",
    ) -> Report:
        """The report of these words, where `label` stands at `span`."""
        location = None if span is None else Label(span, label)
        return Report(self.code, self.severity, headline, self.topic, location, remarks, cure, path)


def problems_in(*modules: ModuleType) -> tuple[type[Problem], ...]:
    """The kinds of problems that modules define, in the order of their definition."""
    return tuple(
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Problem)
        if each.__module__ == module.__name__ and "code" in vars(each)
    )


class ProblemError(Exception):
    """Carries a problem from where it was found to the phase boundary that collects it.

    Its text is what the command line prints: the place with its code, all remarks, and the help.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return _rendered(self.problem)

    def __repr__(self) -> str:
        return f"ProblemError({self.summary!r})"

    def _render_traceback_(self) -> list[str]:
        """The text that IPython shows in place of a traceback."""
        return _shown(self, (self.problem,))

    @property
    def summary(self) -> str:
        """One line, `net.mgn:13: error[E0301]: headline`."""
        report = self.problem.report()
        said = f"{report.severity.value}[{report.code}]: {report.headline}"
        if report.label is None:
            return said
        span = report.label.span
        return f"{span.source.name}:{span.line}: {said}"


class ProblemsError(Exception):
    """Carries everything that was found wrong at once, each with the text of a `ProblemError`."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n\n".join(map(_rendered, self.problems))

    def __repr__(self) -> str:
        return f"ProblemsError({[ProblemError(each).summary for each in self.problems]})"

    def _render_traceback_(self) -> list[str]:
        """The text that IPython shows in place of a traceback."""
        return _shown(self, self.problems)


def _rendered(problem: Problem) -> str:
    """A problem as the command line prints it, without colours."""
    return render(problem.report())


def _shown(error: Exception, problems: tuple[Problem, ...]) -> list[str]:
    """Problems in colours, and the line of the cell that met them."""
    reports = "\n\n".join(render(each.report(), colour=True) for each in problems)
    found = [
        f"  in line {each.lineno} of the cell: {each.line}"
        for each in extract_tb(error.__traceback__)
        if _CELL.search(each.filename) and "run_cell_magic(" not in (each.line or "")
    ]
    return [reports, *found[-1:]]


@dataclass
class Sink:
    """Collects the problems of a run, each once, in the order they were found."""

    _problems: dict[Report, Problem] = field(default_factory=dict[Report, Problem])

    def add(self, problem: Problem) -> None:
        """Keep a problem, unless the very same report was kept before."""
        self._problems.setdefault(problem.report(), problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems.values())

    def __len__(self) -> int:
        return len(self._problems)

    @property
    def reports(self) -> tuple[Report, ...]:
        """All reports, in the order they were found."""
        return tuple(self._problems)

    @property
    def has_errors(self) -> bool:
        """True if any problem is an error."""
        return any(report.severity is Severity.ERROR for report in self._problems)
