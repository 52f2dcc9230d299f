"""What all contenders have in common: they run a case, and are timed in the same way."""

import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np

from benchmarks.peers.case import Material
from meganeura_dsl.ir.graph import Array

HOST_ROUNDS = 9
Step = Callable[[], object]
Figure = Callable[[], float]


def nothing() -> None:
    """A step that is not needed."""


class Absent(Exception):
    """A contender cannot run here; says why."""


@dataclass(frozen=True)
class Running:
    """A case that runs: what came out first, and how to go on."""

    outputs: Array
    """The output of an inference, or the first losses of a training."""
    steps: Mapping[str, Step]
    """Ways to begin a step, by the column they are timed for."""
    wait: Step
    """Returns once everything begun is done."""
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    """More columns, computed after the times."""
    settle: Step = nothing
    """Done before it is timed, once it has the machine to itself."""


class Contender(Protocol):
    """A framework that can run the cases."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        ...

    def columns(self, *, trains: bool) -> tuple[str, ...]:
        """The case that is timed, before it has run."""
        ...

    def run(self, one: Material) -> AbstractContextManager[Running]:
        """Load and compile a case, and take its first steps; `Absent` where that cannot be."""
        ...


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 20
    """Of which the median counts."""
    warm_seconds: float = 0.15
    round_seconds: float = 0.03
    least_steps: int = 3
    """Of a round: so many that the host can prepare the next one while one runs."""


QUICK = Effort(rounds=1, warm_seconds=0.0, round_seconds=0.0, least_steps=1)


def median_ms(step: Step, wait: Step, effort: Effort) -> float:
    """The time of a step while many follow each other."""
    step()
    wait()
    start = perf_counter()
    count = 0
    while perf_counter() - start < effort.warm_seconds:
        step()
        wait()
        count += 1
    share = effort.round_seconds / effort.warm_seconds if effort.warm_seconds else 0.0
    each = max(effort.least_steps, int(count * share))
    return 1e3 * statistics.median(_round(step, wait, each) for _ in range(effort.rounds))


def _round(step: Step, wait: Step, steps: int) -> float:
    start = perf_counter()
    for _ in range(steps):
        step()
    wait()
    return (perf_counter() - start) / steps


def host_ms(step: Step, wait: Step, effort: Effort) -> float:
    """The time until a step is begun and the host has nothing more to do with it."""
    times: list[float] = []
    for _ in range(min(HOST_ROUNDS, effort.rounds)):
        start = perf_counter()
        step()
        times.append(1e3 * (perf_counter() - start))
        wait()
    return statistics.median(times)


def difference(found: Array, expected: Array) -> float:
    """The largest difference in units of the largest element; infinite where one is no number."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())
