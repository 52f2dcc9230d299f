"""The parameters that each optimizer moves, and problems with that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting, setting_key
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import Invocation
from meganeura_dsl.plugins.plugin_groups import blamed
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, whole
from meganeura_dsl.settings.settings_problems import RefusedRule, UnfitParameters, UnmatchedPaths
from meganeura_dsl.transforms.optimizers.declared import DeclaredOptimizer
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer

OPTIMIZER, SCHEDULE = "optimizer", "schedule"


@dataclass(frozen=True)
class ParameterGroup:
    """The parameters that one line of the settings is for."""

    glob: str | None
    """The paths it names; `None` for `optimizer` alone."""
    optimizer: Optimizer | None
    """The optimizer that moves them; `None` if nothing does."""
    parameters: tuple[ParameterInfo, ...]

    @property
    def key(self) -> str:
        """The setting as it is written: `optimizer["*.bias"]`."""
        return setting_key(OPTIMIZER, self.glob)


def parameter_groups(
    settings: RunSettings, parameters: Sequence[ParameterInfo]
) -> tuple[ParameterGroup, ...]:
    """The trained parameters by the setting that is for them, the last that matches.

    The first group is that of `optimizer` alone; a group whose parameters later ones take is empty.
    """
    globs = [None, *settings.optimizers]
    found: dict[str | None, list[ParameterInfo]] = {glob: [] for glob in globs}
    for each in parameters:
        if each.kind == "param":
            matching = [glob for glob in globs[1:] if fnmatchcase(each.name, glob or "")]
            found[matching[-1] if matching else None].append(each)
    optimizers = {None: settings.optimizer, **settings.optimizers}
    return tuple(ParameterGroup(glob, optimizers[glob], tuple(found[glob])) for glob in globs)


def scheduled_parameters(
    settings: RunSettings, parameters: Sequence[ParameterInfo]
) -> dict[str, tuple[ParameterInfo, ...]]:
    """The trained parameters that have a schedule of their own, by its glob, the last match."""
    found: dict[str, list[ParameterInfo]] = {glob: [] for glob in settings.schedules}
    for each in parameters:
        matching = [glob for glob in found if fnmatchcase(each.name, glob)]
        if each.kind == "param" and matching:
            found[matching[-1]].append(each)
    return {glob: tuple(each) for glob, each in found.items()}


def group_problems(
    settings: RunSettings, written: RawSettings, parameters: Sequence[ParameterInfo]
) -> Iterator[Problem]:
    """Paths that match no parameter, and parameters that their optimizer cannot move.

    `written` are the settings of the program, without those that were given for one run.
    """
    names = tuple(each.name for each in parameters if each.kind == "param")
    named = (
        (OPTIMIZER, settings.optimizers),
        ("every", settings.intervals),
        (SCHEDULE, settings.schedules),
    )
    for key, glob in ((setting_key(name, glob), glob) for name, globs in named for glob in globs):
        if not any(fnmatchcase(name, glob) for name in names):
            yield UnmatchedPaths(written[key].span if key in written else whole(key), glob, names)
    for group in parameter_groups(settings, parameters):
        optimizer = group.optimizer
        if optimizer is None:
            continue
        if isinstance(optimizer, DeclaredOptimizer):
            yield from _refusal(optimizer, group, written)
            continue
        with blamed(optimizer, "when it was asked which parameters it moves"):
            demands = {each.name: optimizer.demand(each.type) for each in group.parameters}
        unfit = tuple(each for each in group.parameters if demands[each.name])
        if unfit:
            shown = tuple((each.name, str(each.type)) for each in unfit)
            span = _span_of(written, group.key, optimizer.word)
            yield UnfitParameters(span, optimizer.word, demands[unfit[0].name], shown)


def _refusal(
    optimizer: DeclaredOptimizer, group: ParameterGroup, written: RawSettings
) -> Iterator[Problem]:
    """The problem of a rule whose header does not allow its arguments, or some parameters."""
    refused: list[tuple[ParameterInfo, ProblemError]] = []
    for each in group.parameters:
        try:
            optimizer.rule(each.type)
        except ProblemError as error:
            refused.append((each, error))
    if refused:
        shown = tuple((each.name, str(each.type)) for each, _ in refused)
        span = _span_of(written, group.key, optimizer.word)
        lines = (written[key].value for key in (OPTIMIZER, group.key) if key in written)
        said: dict[str, object] = {}
        for each in lines:
            said |= each.arguments if isinstance(each, Invocation) else {}
        if any(said.get(name) != each for name, each in optimizer.changed.items()):
            span = whole(f"{group.key}={optimizer}")  # a run was given other arguments
        reason = refused[0][1].problem.report()
        moves_some = len(refused) < len(group.parameters)
        yield RefusedRule(span, optimizer.word, "", shown, reason, moves_some)


def _span_of(written: RawSettings, key: str, word: str) -> Span:
    """Returns the place where an optimizer was chosen: a line of the program, or the setting."""
    match written.get(key):
        case WrittenSetting(value=Invocation(name=name), span=span) if name == word:
            return span
        case _:
            return whole(f"{key}={word}")
