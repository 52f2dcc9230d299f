"""Base of all contenders: they run a case, and are timed in the same way."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, Protocol

import numpy as np

from benchmarks.peers.case import Material
from meganeura_dsl.ir.graph import Array

SAMPLE = 1 << 20
"""The most elements of an output that are compared."""
RESIDENT = ""
"""The way in which inputs and outputs stay on the device."""

Precision = Literal["f32", "tf32", "bf16", "f16"]
PRECISIONS: tuple[Precision, ...] = ("f32", "tf32", "bf16", "f16")
TOLERANCE: Mapping[Precision, float] = {"f32": 5e-3, "tf32": 1e-2, "bf16": 5e-2, "f16": 1e-2}
"""A contender whose outputs differ by more, of the largest element, computes something else."""
Step = Callable[[], object]
Figure = Callable[[], float]


class Absent(Exception):
    """A contender cannot run here; says why."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a device in some steps, in seconds since the profiler was started."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Running:
    """A case that runs: what came out first, and how to go on."""

    outputs: Array
    """The output of an inference, or the first losses of a training."""
    steps: Mapping[str, Step]
    """Ways to begin a step, by name; the first is the one that is profiled."""
    wait: Step
    """Returns once everything begun is done."""
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    """Further figures of a step, computed after the times."""
    profile: Callable[[Step], Sequence[Kernel]] | None = None
    """The kernels of what a function does; `None` where there is no profiler."""


class Contender(Protocol):
    """A framework in one of its modes."""

    def run(self, one: Material) -> AbstractContextManager[Running]:
        """Load and compile a case, and take its first steps; `Absent` where that cannot be."""
        ...


@dataclass(frozen=True)
class Effort:
    """The length of measurements at one visit."""

    warm_seconds: float = 0.05
    """Of steps before the clock starts, which bring the device to its speed."""
    rounds: int = 1
    round_seconds: float = 0.25
    """So long that what the host takes to begin the first step of a round does not count."""
    least_steps: int = 3
    """Of a round: so many that the host can prepare the next one while one runs."""


QUICK = Effort(warm_seconds=0.0, rounds=1, round_seconds=0.0, least_steps=1)


def rounds_ms(step: Step, wait: Step, effort: Effort) -> list[float]:
    """The milliseconds of a step while many follow each other, in each of some rounds."""
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
    return [1e3 * _round(step, wait, each) for _ in range(effort.rounds)]


def _round(step: Step, wait: Step, steps: int) -> float:
    start = perf_counter()
    for _ in range(steps):
        step()
    wait()
    return (perf_counter() - start) / steps


def sampled(outputs: Array) -> Array:
    """So many elements of an output as a file may hold, evenly spread."""
    flat = np.asarray(outputs, np.float32).reshape(-1)
    return flat[:: -(-flat.size // SAMPLE)]


def difference(found: Array, expected: Array) -> float:
    """The largest difference in units of the largest element; infinite where one is no number."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())
