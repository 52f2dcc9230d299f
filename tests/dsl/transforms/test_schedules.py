"""Schedules against their formulas, written here anew for whole runs; `tests/parity` has PyTorch's.

What a step is counted from, which epochs a warmup belongs to, and what the last step gets are seen
in the numbers of every step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import cos, inf, nan, pi

import numpy as np
import pytest

from meganeura_dsl.transforms.optimizers.schedules import (
    Constant,
    Cosine,
    Linear,
    OneCycle,
    Piecewise,
    Plateau,
    Polynomial,
    Reduction,
    Restarts,
    RunLength,
    Schedule,
    Step,
)

RUN = RunLength(steps=40, steps_per_epoch=4)
Formula = Callable[[int], float]


def cosine(t: float, final: float = 0.0) -> float:
    return final + (1 - final) * (1 + cos(pi * t)) / 2


def warmed(warmup: int, formula: Formula) -> Formula:
    return lambda step: (step + 1) / warmup if step < warmup else formula(step)


def between(points: Sequence[tuple[float, float]], *, linear: bool) -> Formula:
    """Through points of steps and factors, on lines or on half cosines."""

    def at(step: int) -> float:
        for (start, first), (end, last) in pairwise(points):
            if step <= end:
                t = (step - start) / (end - start)
                part = t if linear else (1 - cos(pi * t)) / 2
                return first + (last - first) * part
        raise AssertionError(step)

    return at


FORMULAS: dict[str, tuple[Schedule, Formula]] = {
    "constant": (Constant(), lambda _: 1.0),
    "constant-warmup": (Constant(5), warmed(5, lambda _: 1.0)),
    "cosine": (Cosine(), lambda s: cosine(s / 40)),
    "cosine-warmup": (Cosine(8, 0.25), warmed(8, lambda s: cosine((s - 8) / 32, 0.25))),
    "linear": (Linear(10, 0.5), warmed(10, lambda s: 1 - 0.5 * (s - 10) / 30)),
    "polynomial": (Polynomial(), lambda s: 1 - s / 40),
    "polynomial-power": (
        Polynomial(4, 3.0, 0.1),
        warmed(4, lambda s: 0.1 + 0.9 * (1 - (s - 4) / 36) ** 3),
    ),
    "step": (Step(every=2, gamma=0.5), lambda s: 0.5 ** (s // 8)),
    "step-warmup": (Step(6, 1, 0.1), warmed(6, lambda s: 0.1 ** (s // 4))),
    "step-of-parts": (Step(every=0.75, gamma=0.9), lambda s: 0.9 ** (s // 3)),
    "piecewise": (
        Piecewise(2, (1, 2.5, 7), (0.5, 2.0, 0.0)),
        warmed(2, lambda s: 1.0 if s < 4 else 0.5 if s < 10 else 2.0 if s < 28 else 0.0),
    ),
    "restarts": (Restarts(period=2, final=0.2), lambda s: cosine(s % 8 / 8, 0.2)),
    "restarts-longer": (
        Restarts(4, 1, 2),
        warmed(4, lambda s: cosine(next((s - a) / n for a, n in PERIODS if a <= s < a + n))),
    ),
    "one-cycle": (
        OneCycle(pct_start=0.25),
        between([(0, 1 / 25), (9, 1.0), (39, 1 / 25 / 1e4)], linear=False),
    ),
    "one-cycle-down": (
        OneCycle(pct_start=0.025),
        between([(0, 1.0), (39, 1 / 25 / 1e4)], linear=False),
    ),
    "one-cycle-up": (OneCycle(1, "linear"), between([(0, 1 / 25), (39, 1.0)], linear=True)),
    "one-cycle-linear": (
        OneCycle(0.5, "linear", 10, 100),
        between([(0, 0.1), (19, 1.0), (39, 0.001)], linear=True),
    ),
    "one-cycle-three": (
        OneCycle(0.25, div_factor=5, final_div_factor=2, three_phase=True),
        between([(0, 0.2), (9, 1.0), (18, 0.2), (39, 0.1)], linear=False),
    ),
    "plateau": (Plateau(3), warmed(3, lambda _: 1.0)),
}
PERIODS = ((4, 4), (8, 8), (16, 16), (32, 32))
"""The first step of each period after a warmup of 4 steps, and its length."""


@pytest.mark.parametrize("name", FORMULAS)
def test_a_run_has_the_rates_of_the_formula(name: str) -> None:
    schedule, formula = FORMULAS[name]
    found = [schedule.at(step, RUN) for step in range(RUN.steps)]
    expected = [formula(step) for step in range(RUN.steps)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "schedule",
    [
        Cosine(2, 0.1, steps=30),
        Linear(final=0.5, steps=30),
        Polynomial(power=0.5, steps=30),
        OneCycle(steps=30),
        OneCycle(three_phase=True, anneal_strategy="linear", steps=30),
    ],
    ids=repr,
)
def test_a_length_of_its_own_takes_the_place_of_that_of_the_run(schedule: Schedule) -> None:
    """Before its end the rates are those of a run of that length; after it they stay."""
    whole, alone = replace(schedule, steps=0), RunLength(30, 4)
    found = [schedule.at(step, RUN) for step in range(RUN.steps)]
    assert found[:30] == [whole.at(step, alone) for step in range(30)]
    assert found[:30] != [whole.at(step, RUN) for step in range(30)]
    assert len({*found[30:]}) == 1
    assert found[30] <= found[29]
    assert [schedule.at(step, RunLength(5, 1)) for step in range(RUN.steps)] == found
    assert whole.spans_run
    assert not schedule.spans_run


def test_only_a_constant_without_warmup_is_steady() -> None:
    steady = [name for name, (schedule, _) in FORMULAS.items() if schedule.is_steady]
    assert steady == ["constant"]


def test_milestones_and_factors_belong_together() -> None:
    with pytest.raises(ValueError, match="as many factors"):
        Piecewise(milestones=(1.0, 2.0), factors=(0.5,))
    for milestones in ((2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="increase"):
            Piecewise(milestones=milestones, factors=(0.5, 0.1))


def scales(plateau: Plateau, values: Sequence[float]) -> list[float]:
    """Returns the factor of later rates after each of these measurements."""
    state, found = Reduction(), list[float]()
    for value in values:
        state = plateau.measured(state, value)
        found.append(state.scale)
    return found


@pytest.mark.parametrize(
    ("plateau", "values", "expected"),
    [
        (Plateau(factor=0.5, patience=1), (4, 4, 4, 4, 4, 1), (1, 1, 0.5, 0.5, 0.25, 0.25)),
        (Plateau(factor=0.5, patience=0), (4, 3, 3, 2, 2), (1, 1, 0.5, 0.5, 0.25)),
        (Plateau(factor=0.5, patience=0, mode="max"), (4, 5, 5, 4, 6), (1, 1, 0.5, 0.25, 0.25)),
        (Plateau(factor=0.5, patience=0, cooldown=2), (4, 4, 4, 4, 4), (1, 0.5, 0.5, 0.5, 0.25)),
        (Plateau(factor=0.1, patience=0, final=0.05), (4, 4, 4, 4), (1, 0.1, 0.05, 0.05)),
        (Plateau(factor=0.5, patience=0, threshold=0.25), (4, 3.1, 2.9, 2.9), (1, 0.5, 0.5, 0.25)),
        (
            Plateau(factor=0.5, patience=0, threshold=0.25, threshold_mode="abs"),
            (4, 3.8, 3.7, 3.4),
            (1, 0.5, 0.5, 0.5),
        ),
        (
            Plateau(factor=0.5, patience=0, threshold=0.5, mode="max"),
            (4, 5.5, 6.5, 9.5),
            (1, 0.5, 0.5, 0.25),
        ),
        (Plateau(factor=0.5, patience=0), (nan, inf, 4, nan, 3), (0.5, 0.25, 0.25, 0.125, 0.125)),
        (Plateau(factor=0.5, patience=0, threshold=0.0), (4, 4, 3), (1, 0.5, 0.5)),
        (Plateau(factor=0.5, patience=0, threshold=0.0, mode="max"), (4, 4, 5), (1, 0.5, 0.5)),
        (
            Plateau(factor=0.5, patience=0, threshold=1.0, threshold_mode="abs"),
            (4, 3, 2, 2),
            (1, 0.5, 0.5, 0.25),
        ),
    ],
)
def test_a_plateau_reduces_what_follows(
    plateau: Plateau, values: Sequence[float], expected: Sequence[float]
) -> None:
    np.testing.assert_allclose(scales(plateau, values), expected, rtol=1e-12)
