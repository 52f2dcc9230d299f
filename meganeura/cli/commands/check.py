"""`meganeura check`: everything a program declares is proved, or refuted with an example."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import count, exit_code, say, show
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report, Severity
from meganeura_dsl.diagnostics.render import as_json, printable

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


def check(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE|MODEL...", help="Programs, or standard models.")
    ],
    *,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    short: Annotated[bool, typer.Option("--short", help="One line for each message.")] = False,
    limits: Annotated[
        str | None,
        typer.Option(metavar="webgpu-default|DEVICE", help="Does a training step fit a GPU?"),
    ] = None,
) -> None:
    """Prove shapes, names, expectations and settings of programs."""
    results = [_check(target) for target in targets]
    if limits is not None:
        results = [_within(result, limits) for result in results]
    if as_data:
        say(json.dumps(_as_data(results), indent=2))
    else:
        for result in results:
            show(result.reports, sys.stdout, short=short)
            if not short:
                say(_summary(result))
    errors = [report for result in results for report in result.errors]
    if errors:
        raise typer.Exit(exit_code(errors))


def _check(target: str) -> Checked:
    from meganeura_dsl import pipeline

    try:
        found = pipeline.check_file(target)
        settings = () if not found.fine else _settings_reports(found.program)
    except ProblemError as error:
        return Checked(target, None, (error.problem.report(),))
    reports = (*found.reports, *settings)
    return Checked(target, found.program, reports, found.proved, found.holds)


def _within(result: Checked, limits: str) -> Checked:
    """A target that is fine, and what of its training steps is beyond the limits of a GPU."""
    from meganeura.cli.driver.device_fit import fits

    if result.errors or result.program is None:
        return result
    fitting = [fits(result.program, train, limits) for train in result.program.trains]
    reports = [report for found, _ in fitting for report in found]
    facts = tuple(fact for _, fact in fitting)
    return replace(result, reports=(*result.reports, *reports), facts=facts)


def _settings_reports(program: "Program") -> tuple[Report, ...]:
    """What is wrong with the settings of the `train` blocks that are checked and have any."""
    from meganeura_dsl import pipeline

    reports: list[Report] = []
    for train in program.trains if program.chosen is None else {program.chosen} & {*program.trains}:
        raw = pipeline.train_settings(program, train)
        if not raw:
            continue
        from meganeura_dsl.settings.run_settings import resolve_settings
        from meganeura_runtime.backends.registry import DEVICE_NAMES

        try:
            resolve_settings(raw, (), pipeline.free_sizes(program, train), DEVICE_NAMES)
        except ProblemsError as error:
            reports.extend(problem.report() for problem in error.problems)
    return tuple(reports)


def _summary(result: Checked) -> str:
    """`resnet18: fine, 3 blocks proved for all sizes, 3 expectations hold`."""
    target = printable(result.target)
    if result.errors:
        return "\n  ".join([f"{target}: {count(len(result.errors), 'error')}", *result.facts])
    facts = [f"{target}: fine"]
    if result.proved:
        facts.append(f"{count(len(result.proved), 'block')} proved for all sizes")
    if result.holds:
        verb = "holds" if result.holds == 1 else "hold"
        facts.append(f"{count(result.holds, 'expectation')} {verb}")
    return "\n  ".join([", ".join(facts), *result.facts])


def _as_data(results: Sequence[Checked]) -> list[dict[str, object]]:
    return [
        {
            "target": result.target,
            "fine": not result.errors,
            "proved": list(result.proved),
            "expectations": result.holds,
            "reports": [as_json(report) for report in result.reports],
        }
        for result in results
    ]
