"""The schedules of learning rates as functions of Python: the factor of each update."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from meganeura_dsl.transforms.optimizers.schedules import (
    Constant,
    Cosine,
    Falling,
    Linear,
    OneCycle,
    Piecewise,
    Polynomial,
    Restarts,
    Schedule,
    Step,
    WarmedUp,
)


@dataclass(frozen=True)
class Factor:
    """A function `rate` of the number of an update, from 0, and of another number of the run."""

    lines: tuple[str, ...]
    second: str
    """`updates`, the updates of the run, or `updates_per_epoch`, which may be a fraction."""


def factor_of(schedule: Schedule) -> Factor | None:
    """The function of a built-in schedule; None where the factor is always 1."""
    if schedule.is_steady:
        return None
    write = _BODIES[type(schedule)]
    second = "updates_per_epoch" if schedule.needs == "steps_per_epoch" else "updates"
    lines = [
        f"def rate(update, {second}):",
        '    """The factor of the learning rate at an update, counted from 0."""',
    ]
    if isinstance(schedule, WarmedUp) and schedule.warmup:
        lines += [
            f"    if update < {schedule.warmup}:",
            f"        return (update + 1) / {schedule.warmup}",
        ]
    return Factor((*lines, *(f"    {line}" for line in write(schedule))), second)


def _constant(schedule: Constant) -> list[str]:
    del schedule
    return ["return 1.0"]


def _passed(schedule: Falling) -> list[str]:
    """The statement that binds `t`, from 0 to 1 over the updates after the warmup."""
    length, warmup = schedule.steps or "updates", schedule.warmup
    if not warmup:
        return [f"t = min(1.0, update / {length if schedule.steps else 'max(1, updates)'})"]
    return [f"t = min(1.0, (update - {warmup}) / max(1, {length} - {warmup}))"]


def _between(final: float, part: str) -> str:
    """The statement that returns a factor: 1 where `part` is 1, and `final` where it is 0."""
    return f"return {final!r} + {1 - final!r} * {part}" if final else f"return {part}"


def _cosine(schedule: Cosine) -> list[str]:
    part = "(1 + math.cos(math.pi * t)) / 2"
    return [*_passed(schedule), _between(schedule.final, part)]


def _linear(schedule: Linear) -> list[str]:
    return [*_passed(schedule), _between(schedule.final, "(1 - t)")]


def _polynomial(schedule: Polynomial) -> list[str]:
    return [*_passed(schedule), _between(schedule.final, f"(1 - t) ** {schedule.power!r}")]


def _step(schedule: Step) -> list[str]:
    epochs = f"update // ({_exact(schedule.every)} * updates_per_epoch)"
    return [f"return {schedule.gamma!r} ** int({epochs})"]


def _piecewise(schedule: Piecewise) -> list[str]:
    lines: list[str] = []
    pairs = list(zip(schedule.milestones, schedule.factors, strict=True))
    for milestone, factor in reversed(pairs):
        lines += [
            f"if update >= {_exact(milestone)} * updates_per_epoch:",
            f"    return {factor!r}",
        ]
    return [*lines, "return 1.0"]


def _restarts(schedule: Restarts) -> list[str]:
    warmup = schedule.warmup
    start = f"update - {warmup}" if warmup else "update"
    period = f"{_exact(schedule.period)} * updates_per_epoch"
    part = "(1 + math.cos(math.pi * update / period)) / 2"
    if schedule.multiplier == 1:
        begun = [f"period = {period}", f"update = {f'({start})' if warmup else start} % period"]
    else:
        begun = [
            f"update, period = {start}, {period}",
            "while update >= period:",
            f"    update, period = update - period, {_exact(schedule.multiplier)} * period",
        ]
    return [*begun, _between(schedule.final, part)]


def _one_cycle(schedule: OneCycle) -> list[str]:
    low = 1 / schedule.div_factor
    peak = f"{schedule.pct_start!r} * {schedule.steps or 'updates'} - 1"
    last = f"{schedule.steps or 'updates'} - 1"
    ends = [f"(0.0, {low!r})", "(peak, 1.0)"]
    if schedule.three_phase:
        ends.append(f"(2 * peak, {low!r})")
    ends.append(f"({last}, {low / schedule.final_div_factor!r})")
    is_cosine = schedule.anneal_strategy == "cos"
    part = "(1 + math.cos(math.pi * t)) / 2" if is_cosine else "1 - t"
    return [
        f"peak = {peak}",
        f"points = [{', '.join(ends)}]",
        "for (start, first), (end, last) in zip(points, points[1:]):",
        "    if update <= end:",
        "        break",
        "t = 1.0 if end <= start else min(1.0, (update - start) / (end - start))",
        f"return last + (first - last) * ({part})",
    ]


_BODIES: Mapping[type[Schedule], Callable[..., list[str]]] = {
    Constant: _constant,
    Cosine: _cosine,
    Linear: _linear,
    Polynomial: _polynomial,
    Step: _step,
    Piecewise: _piecewise,
    Restarts: _restarts,
    OneCycle: _one_cycle,
}
"""The statements of each schedule behind those of its warmup."""


def _exact(written: float) -> str:
    """A number as its decimal digits say it: a whole one, or a fraction of two."""
    exact = Fraction(str(written))
    if exact.denominator == 1:
        return str(exact.numerator)
    return f"Fraction({exact.numerator}, {exact.denominator})"
