"""The first event of a run."""

import math
from collections.abc import Iterator, Sequence

from meganeura_dsl.elaborate.declarations.written_settings import setting_key
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.settings.parameter_groups import (
    SCHEDULE,
    parameter_groups,
    scheduled_parameters,
)
from meganeura_dsl.transforms.optimizers.schedules import WarmedUp
from meganeura_runtime.train.events import Group, Started, Warmup
from meganeura_runtime.train.spec.train_job import TrainJob


def start_event(job: TrainJob) -> Started:
    """Returns the event that describes a run before its first step."""
    trained = [each for each in job.spec.parameters if each.kind == "param"]
    groups = parameter_groups(job.settings, trained)
    moved = {each.name for group in groups if group.optimizer for each in group.parameters}
    return Started(
        name=job.spec.name,
        epochs=job.epochs,
        steps_per_epoch=job.steps_per_epoch,
        steps=job.steps,
        examples=job.dataset.train.examples,
        held_out=0 if job.dataset.test is None else job.dataset.test.examples,
        parameters=len(trained),
        weights=_numbers_in(trained),
        untouched=tuple(
            each.name
            for each in trained
            if each.name in moved and each.name not in job.spec.compiled.updates
        ),
        batch=job.batch,
        left_out=job.left_out,
        empty_files=len(job.dataset.empty_files),
        last_batch=0 if job.last is None else job.last.examples,
        warmups=tuple(_warmups(job)),
        groups=tuple(
            Group(
                f"{group.key} = {group.optimizer or 'frozen'}",
                len(group.parameters),
                _numbers_in(group.parameters),
            )
            for group in groups
            if len(groups) > 1
        )
        + tuple(
            Group(
                f"{setting_key(SCHEDULE, glob)} = {job.settings.schedules[glob]}",
                len(parameters),
                _numbers_in(parameters),
            )
            for glob, parameters in scheduled_parameters(job.settings, trained).items()
        ),
    )


def _warmups(job: TrainJob) -> Iterator[Warmup]:
    """Yields the warmups that the run ends within."""
    settings = job.settings
    updates = job.steps // settings.accumulate
    schedules = {SCHEDULE: settings.schedule} | {
        setting_key(SCHEDULE, glob): each for glob, each in settings.schedules.items()
    }
    for key, schedule in schedules.items():
        if isinstance(schedule, WarmedUp) and schedule.warmup > updates:
            yield Warmup(f"{key} = {schedule}", updates, updates / schedule.warmup)


def _numbers_in(parameters: Sequence[ParameterInfo]) -> int:
    return sum(math.prod(concrete_shape(each.type.shape)) for each in parameters)
