"""What `meganeura check` finds about one target."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError, Report, Severity

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program


@dataclass(frozen=True)
class Checked:
    """What was found about one target."""

    target: str
    program: "Program | None"
    """What was checked; None if it could not be read."""
    reports: tuple[Report, ...]
    proved: tuple[str, ...] = ()
    holds: int = 0
    facts: tuple[str, ...] = ()
    """What else there is to say, such as what a training step needs of a GPU."""

    @property
    def errors(self) -> tuple[Report, ...]:
        """The reports that make the target wrong."""
        return tuple(each for each in self.reports if each.severity is Severity.ERROR)


def check_target(target: str) -> Checked:
    """All that is wrong with a target and with the settings it trains by."""
    from meganeura.settings_reports import settings_reports
    from meganeura_dsl import pipeline

    try:
        found = pipeline.check_file(target)
        settings = settings_reports(found.program)
    except ProblemError as error:
        return Checked(target, None, (error.problem.report(),))
    reports = (*found.reports, *settings)
    return Checked(target, found.program, reports, found.proved, found.holds)
