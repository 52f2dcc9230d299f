"""Problems with the settings that a checked program trains with."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.pipeline import Program
from meganeura_dsl.resources import standard_models
from meganeura_dsl.syntax import ast

if TYPE_CHECKING:
    from meganeura_dsl.check_result import CheckResult
    from meganeura_dsl.settings.run_settings import RunSettings
    from meganeura_dsl.settings.setting_values import RawSettings


def settings_reports(result: "CheckResult") -> tuple[Report, ...]:
    """Problems in the settings of the checked `train` blocks; none for a block without any.

    None is missing here: a run may get it on its command line, or from Python. An optimizer that
    the program declares wrongly is reported there alone.
    """
    reports: list[Report] = []
    program = result.program
    refused = {(each.code, each.label.span) for each in result.reports if each.label is not None}
    for train in program.trains if program.chosen is None else {program.chosen} & {*program.trains}:
        try:
            raw = pipeline.train_settings(program, train)
        except ProblemError:
            continue  # the program is refused for a setting without value
        if not raw:
            continue
        from meganeura_dsl.settings.declared_optimizers import declared_optimizers
        from meganeura_dsl.settings.resolve_settings import resolve_settings
        from meganeura_dsl.settings.settings_problems import MissingSetting, UnknownChoice
        from meganeura_runtime.backends.registry import DEVICE_NAMES

        try:
            declared = declared_optimizers(program.module)
            sizes = pipeline.free_sizes(program, train)
            settings = resolve_settings(raw, (), sizes, DEVICE_NAMES, declared=declared)
        except ProblemsError as error:
            for problem in error.problems:
                is_unread = isinstance(problem, UnknownChoice) and (
                    problem.given in program.module.unread
                )
                if not is_unread and not isinstance(problem, MissingSetting):
                    reports.append(problem.report())
        else:
            reports.extend(_path_reports(program, train, settings, raw, refused))
            reports.extend(_metric_reports(program, train, settings, raw))
            reports.extend(_data_reports(program, train, settings, raw))
    return tuple(reports)


def _metric_reports(
    program: Program, train: str, settings: "RunSettings", written: "RawSettings"
) -> Iterator[Report]:
    """Problems of settings that name a metric of the program.

    The loss is always measured.
    """
    from meganeura_dsl.elaborate.declarations.train_statements import LOSS
    from meganeura_dsl.ir.outputs import Objective
    from meganeura_dsl.settings.named_metrics import metric_problems, named_metrics

    if {*named_metrics(settings)} == {LOSS}:
        return
    with suppress(ProblemError, ProblemsError):  # of the program, and reported there
        graph = pipeline.elaborate_train(program, train, sizes={}, training=True).graph
        measured = tuple(name for name in graph.outputs if not isinstance(name, Objective))
        for problem in metric_problems(settings, written, measured):
            yield problem.report()


def _data_reports(
    program: Program, train: str, settings: "RunSettings", written: "RawSettings"
) -> Iterator[Report]:
    """The problem of a data set that ships with the models and does not fit the inputs.

    Other data is looked at by a run alone: it may lie elsewhere, and may be large.
    """
    path = Path(str(standard_models())) / "data" / f"{Path(settings.data).name}.safetensors"
    is_plain = settings.data.isidentifier() and path.is_file()
    if not is_plain or _seems_to_fit(path, program.module.trains[train], settings):
        return
    from meganeura_runtime.io.data.data_files import open_data
    from meganeura_runtime.io.data.dataset import match_data
    from meganeura_runtime.train.spec.step_graphs import TrainSignature

    with suppress(ProblemError, ProblemsError):  # of the program, and reported there
        input_spec = TrainSignature.of(program, train, settings).input_spec
        try:
            match_data(open_data(path), input_spec, path, written["data"].span)
        except ProblemError as error:
            yield error.problem.report()


def _seems_to_fit(path: Path, train: ast.Train, settings: "RunSettings") -> bool:
    """Returns True if the header of a file has the shapes of all inputs.

    It saves the import of NumPy where data fits. Only sizes that are written as numbers or names
    are compared: of others it returns False, and `match_data` decides.
    """
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    for item in train.inputs:
        name = settings.tensors.get(item.name, item.name)
        stored = header.get(f"train.{name}", header.get(name))
        if stored is None or len(stored["shape"]) != len(item.type.shape.entries):
            return False
        if (stored["dtype"][0] == "F") > (item.type.dtype in (None, "f32", "f16")):
            return False
        for axis, entry in enumerate(item.type.shape.entries):
            size = None
            if isinstance(entry, ast.Integer):
                size = entry.value
            elif isinstance(entry, ast.Name):
                size = settings.sizes.get(entry.text)
            if size is None or ((axis or item.whole) and size != stored["shape"][axis]):
                return False
    return True


def _path_reports(
    program: Program,
    train: str,
    settings: "RunSettings",
    written: "RawSettings",
    refused: Collection[tuple[str, Span]],
) -> Iterator[Report]:
    """Problems of settings with parameters, of which a rule takes some, or which paths name.

    `refused` are the codes and places of the problems of the program.
    """
    from meganeura_dsl.transforms.optimizers.declared import DeclaredOptimizer

    is_declared = isinstance(settings.optimizer, DeclaredOptimizer)
    if not (is_declared or settings.optimizers or settings.schedules or settings.intervals):
        return
    from meganeura_dsl.settings.parameter_groups import group_problems
    from meganeura_dsl.settings.settings_problems import RefusedRule

    with suppress(ProblemError, ProblemsError):  # of the program, and reported there
        forward = pipeline.elaborate_train(program, train, sizes=settings.sizes, training=True)
        for problem in group_problems(settings, written, forward.parameters):
            reason = problem.reason if isinstance(problem, RefusedRule) else None
            place = reason.label.span if reason is not None and reason.label is not None else None
            if reason is None or (reason.code, place) not in refused:
                yield problem.report()
