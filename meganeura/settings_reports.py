"""What is wrong with the settings that a checked program trains by."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.pipeline import Program

if TYPE_CHECKING:
    from meganeura_dsl.settings.run_settings import RunSettings
    from meganeura_dsl.settings.setting_values import RawSettings


def settings_reports(program: Program) -> tuple[Report, ...]:
    """Problems in the settings of the checked `train` blocks; none for a block without any.

    None is missing here: a run may get it on its command line, or from Python.
    """
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
            settings = resolve_settings(raw, (), pipeline.free_sizes(program, train), DEVICE_NAMES)
        except ProblemsError as error:
            wrong = (each for each in error.problems if not isinstance(each, MissingSetting))
            reports.extend(problem.report() for problem in wrong)
        else:
            reports.extend(_path_reports(program, train, settings, raw))
    return tuple(reports)


def _path_reports(
    program: Program, train: str, settings: "RunSettings", written: "RawSettings"
) -> Iterator[Report]:
    """Problems of settings that name parameters by their paths."""
    if not (settings.optimizers or settings.schedules or settings.intervals):
        return
    from meganeura_dsl.settings.parameter_groups import group_problems

    with suppress(ProblemError, ProblemsError):  # of the program, and told of it
        forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
        for problem in group_problems(settings, written, forward.parameters):
            yield problem.report()
