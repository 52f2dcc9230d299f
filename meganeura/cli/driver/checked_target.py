"""What `meganeura check` finds about one target."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report, Severity

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
    from meganeura_dsl import pipeline

    try:
        found = pipeline.check_file(target)
        settings = _settings_reports(found.program)
    except ProblemError as error:
        return Checked(target, None, (error.problem.report(),))
    reports = (*found.reports, *settings)
    return Checked(target, found.program, reports, found.proved, found.holds)


def _settings_reports(program: "Program") -> tuple[Report, ...]:
    """Problems in the settings of the checked `train` blocks; none for a block without any.

    None is missing here: a run may get it on its command line, or from Python.
    """
    from meganeura_dsl import pipeline

    reports: list[Report] = []
    for train in program.trains if program.chosen is None else {program.chosen} & {*program.trains}:
        try:
            raw = pipeline.train_settings(program, train)
        except ProblemError:
            continue  # a setting that has no value is told of the program
        if not raw:
            continue
        from meganeura_dsl.settings.resolve_settings import resolve_settings
        from meganeura_dsl.settings.settings_problems import MissingSetting
        from meganeura_runtime.backends.registry import DEVICE_NAMES

        try:
            resolve_settings(raw, (), pipeline.free_sizes(program, train), DEVICE_NAMES)
        except ProblemsError as error:
            wrong = (each for each in error.problems if not isinstance(each, MissingSetting))
            reports.extend(problem.report() for problem in wrong)
    return tuple(reports)
