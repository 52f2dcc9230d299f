"""Every schedule against PyTorch's, in double precision, over whole runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

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

pytestmark = pytest.mark.parity

LR = 0.3
RUN = RunLength(steps=60, steps_per_epoch=5)
Make = Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]


def warmed(make: Make, warmup: int) -> Make:
    """A linear rise before what a schedule does, as `SequentialLR` has it."""

    def sequential(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
        rise = lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / warmup)
        return lr_scheduler.SequentialLR(optimizer, [rise, make(optimizer)], [warmup])

    return sequential


def cosine(
    optimizer: torch.optim.Optimizer, steps: int, final: float
) -> lr_scheduler.CosineAnnealingLR:
    return lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=final * LR)


BY_STEP: dict[str, tuple[Schedule, Make]] = {
    "constant": (Constant(7), warmed(lambda o: lr_scheduler.ConstantLR(o, 1.0), 7)),
    "cosine": (Cosine(), lambda o: cosine(o, 60, 0.0)),
    "cosine-final": (Cosine(final=0.2), lambda o: cosine(o, 60, 0.2)),
    "cosine-warmup": (Cosine(10, 0.2), warmed(lambda o: cosine(o, 50, 0.2), 10)),
    "linear": (Linear(final=0.25), lambda o: lr_scheduler.LinearLR(o, 1.0, 0.25, 60)),
    "polynomial": (Polynomial(), lambda o: lr_scheduler.PolynomialLR(o, 60)),
    "polynomial-power": (Polynomial(power=2.5), lambda o: lr_scheduler.PolynomialLR(o, 60, 2.5)),
    "polynomial-warmup": (
        Polynomial(10, 0.5),
        warmed(lambda o: lr_scheduler.PolynomialLR(o, 50, 0.5), 10),
    ),
    "step": (Step(every=3, gamma=0.5), lambda o: lr_scheduler.StepLR(o, 15, 0.5)),
    "step-parts": (Step(every=0.2, gamma=0.9), lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    "piecewise": (
        Piecewise(milestones=(2, 7.4, 9), factors=(0.1, 0.01, 0.001)),
        lambda o: lr_scheduler.MultiStepLR(o, [10, 37, 45]),
    ),
    "piecewise-up": (
        Piecewise(milestones=(0.6, 11), factors=(3.0, 9.0)),
        lambda o: lr_scheduler.MultiStepLR(o, [3, 55], 3.0),
    ),
    "restarts": (
        Restarts(period=2, final=0.1),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10, eta_min=0.1 * LR),
    ),
    "restarts-longer": (
        Restarts(period=1, multiplier=2),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5, 2),
    ),
    "restarts-warmup": (
        Restarts(7, period=1, multiplier=3),
        warmed(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5, 3), 7),
    ),
    "one-cycle": (
        OneCycle(),
        lambda o: lr_scheduler.OneCycleLR(o, LR, total_steps=60, cycle_momentum=False),
    ),
    "one-cycle-linear": (
        OneCycle(0.4, "linear", 10.0, 100.0),
        lambda o: lr_scheduler.OneCycleLR(
            o,
            LR,
            total_steps=60,
            pct_start=0.4,
            anneal_strategy="linear",
            cycle_momentum=False,
            div_factor=10,
            final_div_factor=100,
        ),
    ),
    "one-cycle-three": (
        OneCycle(three_phase=True),
        lambda o: lr_scheduler.OneCycleLR(
            o, LR, total_steps=60, cycle_momentum=False, three_phase=True
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter in")
@pytest.mark.filterwarnings("ignore:Please also save or load")
@pytest.mark.parametrize("name", BY_STEP)
def test_schedules(name: str) -> None:
    schedule, make = BY_STEP[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], LR)
    theirs = make(optimizer)
    expected: list[float] = []
    for _ in range(RUN.steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    found = [LR * schedule.at(step, RUN) for step in range(RUN.steps)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


PLATEAUS: dict[str, tuple[Plateau, dict[str, Any]]] = {
    "defaults": (Plateau(), {}),
    "impatient": (Plateau(factor=0.5, patience=0), {"factor": 0.5, "patience": 0}),
    "cooldown": (
        Plateau(factor=0.5, patience=1, cooldown=2, threshold=0.05),
        {"factor": 0.5, "patience": 1, "cooldown": 2, "threshold": 0.05},
    ),
    "absolute": (
        Plateau(factor=0.5, patience=1, threshold=0.2, threshold_mode="abs", final=0.05),
        {"factor": 0.5, "patience": 1, "threshold": 0.2, "threshold_mode": "abs",
         "min_lr": 0.05 * LR},
    ),
    "max": (
        Plateau(mode="max", factor=0.3, patience=2, threshold=0.1),
        {"mode": "max", "factor": 0.3, "patience": 2, "threshold": 0.1},
    ),
    "max-absolute": (
        Plateau(mode="max", factor=0.3, patience=2, threshold_mode="abs"),
        {"mode": "max", "factor": 0.3, "patience": 2, "threshold_mode": "abs"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLATEAUS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_plateaus(name: str, sign: float) -> None:
    """Values that fall and rise, jump and are no numbers, also below 0."""
    schedule, arguments = PLATEAUS[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], LR)
    theirs = lr_scheduler.ReduceLROnPlateau(optimizer, eps=0.0, **arguments)
    values = sign * (1 + np.random.default_rng(3).normal(size=60).cumsum() ** 2 / 5)
    values[7] = np.nan
    values[20] = np.inf
    reduction = Reduction()
    rates: set[float] = set()
    for value in values.tolist():
        theirs.step(value)
        reduction = schedule.measured(reduction, value)
        found = LR * schedule.at(0, RUN) * reduction.scale
        assert found == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        rates.add(found)
    assert len(rates) > 1
