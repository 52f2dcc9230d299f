"""Problems of settings that name a loss or a metric which nothing measures."""

from collections.abc import Collection, Iterator, Sequence

from meganeura_dsl.diagnostics.problem import Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.written_settings import setting_key
from meganeura_dsl.settings.parameter_groups import SCHEDULE
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings, whole
from meganeura_dsl.settings.settings_problems import NoSuchMetric, NothingToFollow

BEST = "best"


def named_metrics(settings: RunSettings) -> Collection[str]:
    """The losses and metrics that `best` and the schedules name."""
    followed = {each.follows for each in settings.all_schedules if each.follows is not None}
    return {settings.best_metric.name, *followed}


def metric_problems(
    settings: RunSettings, written: RawSettings, measured: Sequence[str]
) -> Iterator[Problem]:
    """A problem of `best`, and of each schedule, whose metric is not among those measured."""
    best = settings.best_metric.name
    if best not in measured:
        yield NoSuchMetric(_place(BEST, written), best, tuple(measured))
    yield from followed_problems(settings, written, measured)


def followed_problems(
    settings: RunSettings, written: RawSettings, measured: Sequence[str]
) -> Iterator[Problem]:
    """A problem of each schedule that follows what is not among the metrics measured."""
    keys = (setting_key(SCHEDULE, glob) for glob in (None, *settings.schedules))
    for key, schedule in zip(keys, settings.all_schedules, strict=True):
        if schedule.follows is not None and schedule.follows not in measured:
            span = _place(key, written)
            yield NothingToFollow(span, schedule.word, schedule.follows, tuple(measured))


def _place(key: str, written: RawSettings) -> Span:
    return written[key].span if key in written else whole(key)
