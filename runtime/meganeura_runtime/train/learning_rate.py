"""The learning rate of each step.

With W warmup steps of T, and f the final fraction, step s = 0, 1, ... has the rate lr times

    (s + 1) / W                                while s < W,
    1                                          constant,
    f + (1 - f) (1 + cos(pi t)) / 2            cosine,
    f + (1 - f) (1 - t)                        linear,    with t = (s - W) / (T - W).
"""

from math import cos, pi
from typing import assert_never

from meganeura_dsl.settings.run_settings import Constant, Cosine, Linear, RunSettings, Schedule


def is_steady(schedule: Schedule) -> bool:
    """Whether every step has the optimizer's own learning rate."""
    return schedule == Constant()


def learning_rate(settings: RunSettings, step: int, steps: int) -> float:
    """The rate of a step, counted from 0, in a run of `steps`."""
    return settings.optimizer.lr * factor(settings.schedule, step, steps)


def factor(schedule: Schedule, step: int, steps: int) -> float:
    """The share of the optimizer's learning rate that a step gets."""
    if step < schedule.warmup:
        return (step + 1) / schedule.warmup
    passed = (step - schedule.warmup) / max(1, steps - schedule.warmup)
    match schedule:
        case Constant():
            return 1.0
        case Cosine(final=final):
            return final + (1 - final) * (1 + cos(pi * passed)) / 2
        case Linear(final=final):
            return final + (1 - final) * (1 - passed)
        case _:
            assert_never(schedule)
