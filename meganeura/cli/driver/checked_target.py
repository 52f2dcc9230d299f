"""The result of `meganeura check` for one target."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError, Report, Severity

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.source import Source
    from meganeura_dsl.pipeline import Program
    from meganeura_dsl.symbolic.assumptions import Recorder


@dataclass(frozen=True)
class Checked:
    """The result for one target."""

    target: str
    program: "Program | None"
    """The program that was checked; None if it could not be read."""
    reports: tuple[Report, ...]
    proved: tuple[str, ...] = ()
    holds: int = 0
    facts: tuple[str, ...] = ()
    """Further lines, such as the needs of a training step on a GPU."""
    texts: "tuple[tuple[str, Source], ...]" = ()
    """All texts that it depends on, the program's own first."""

    @property
    def errors(self) -> tuple[Report, ...]:
        """The reports that make the target wrong."""
        return tuple(each for each in self.reports if each.severity is Severity.ERROR)


def check_target(target: str, recorder: "Recorder | None" = None) -> Checked:
    """All that is wrong with a target and with the settings it trains by; `-` is standard input.

    `recorder` notes what is proved and refuted of sizes.
    """
    from meganeura.cli.driver.program_files import STANDARD_INPUT, standard_input
    from meganeura.settings_reports import settings_reports
    from meganeura_dsl import pipeline

    try:
        if target == STANDARD_INPUT:
            found = pipeline.check_text(standard_input(), recorder)
        else:
            found = pipeline.check_file(target, recorder)
        settings = settings_reports(found)
    except ProblemError as error:
        return Checked(target, None, (error.problem.report(),))
    reports = (*found.reports, *settings)
    return Checked(target, found.program, reports, found.proved, found.holds, texts=found.texts)
