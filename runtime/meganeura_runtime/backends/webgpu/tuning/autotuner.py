"""Finding the fastest way to compute each contraction of a step, on the adapter itself.

Every candidate computes the same numbers as the planner's way before its time counts. Candidates
run in turns with the planner's way within one submission, so that no change of the adapter's clock
favours any of them. At the end the whole step is timed with what was found and without; what does
not gain is not kept.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from math import inf

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.device_problems import NoClock
from meganeura_runtime.backends.errors import DeviceError, LimitError
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.step_timer import step_seconds
from meganeura_runtime.backends.webgpu.config.kernel_config import (
    DEFAULT_FUSION,
    FusionConfig,
    KernelConfig,
)
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    UNTUNED,
    TunedConfigs,
    TuningDatabase,
    TuningRecord,
    is_possible,
    step_name,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.clock_warmup import warmup_runs
from meganeura_runtime.backends.webgpu.tuning.search_space import (
    Subject,
    first_configs,
    nearby_configs,
    planned,
    subjects,
)

TURNS = 7
"""The number of runs of each candidate; its time is the median."""
LONG_TURN = 0.1
"""Seconds of one turn of all of them that are better not submitted with others."""
AT_ONCE = 512 << 20
"""Bytes that candidates that take turns may have together."""
MOST_AT_ONCE = 16
REPETITIONS = 3
"""The number of timings of the step with the found configs, and as many without."""
FUSINGS = (
    DEFAULT_FUSION,
    FusionConfig(epilogue=15),
    FusionConfig(epilogue=200),
    FusionConfig(launch=0.2),
    FusionConfig(launch=5.0),
    FusionConfig(fuse_attention=True),
    FusionConfig(fuse_attention=False),
)
"""Ways in which values share kernels: the planner's first, then less and more readily."""
GAIN = 0.02
"""The least share of the time that a way must save to be preferred to the planner's."""
TOLERANCES = {4: 1e-4, 2: 4e-3}
"""Tolerances of sums in another order, in units of the largest; by bytes of an element."""
STEP_TOLERANCE = 1e-3
"""The same for the results of a whole step."""


@dataclass(frozen=True)
class Outcome:
    """The result for one contraction: seconds of one run, as planned and at best."""

    subject: Subject
    planned: KernelConfig
    best: KernelConfig
    before: float
    after: float
    tried: int
    refused: tuple[str, ...]
    """The ways that did not run, or gave other numbers, with the reason."""

    @property
    def gains(self) -> bool:
        """True if the best way is not the planner's."""
        return self.best != self.planned


@dataclass(frozen=True)
class Tuning:
    """The result for a whole step: its seconds, before and after."""

    step: str
    """The name of the step."""
    outcomes: tuple[Outcome, ...]
    fusing: FusionConfig
    before: float
    after: float

    @property
    def choices(self) -> TunedConfigs:
        """The ways that gain something, if the step does."""
        if not self.gains:
            return UNTUNED
        gaining = (one for one in self.outcomes if one.gains)
        configs = {one.subject.whole.name: one.best for one in gaining}
        return TunedConfigs("what was just found", configs, {self.step: self.fusing})

    @property
    def gains(self) -> bool:
        """True if anything was found to gain, and the step has become faster."""
        something = self.fusing != DEFAULT_FUSION or any(one.gains for one in self.outcomes)
        return something and self.after < self.before

    def found(self, known: TuningDatabase) -> TuningDatabase:
        """Returns the choices to keep of this result and of those known before."""
        if not self.gains:
            return known
        configs, fusings = dict(known.configs), dict(known.fusings)
        for one in self.outcomes:
            configs.pop(one.subject.whole.name, None)
            if one.gains:
                configs[one.subject.whole.name] = TuningRecord(one.best, one.after, one.before)
        fusings.pop(self.step, None)
        if self.fusing != DEFAULT_FUSION:
            fusings[self.step] = self.fusing
        return TuningDatabase(configs, fusings)


def tune(
    device: Device,
    graph: Graph,
    watch: Callable[[Outcome], None],
    style: Style | None = None,
) -> Tuning:
    """The best way for each contraction of a graph; `watch` is called with each once it is found.

    Raises `ProblemError` where the adapter has no clock.
    """
    if not device.has_clock:
        raise ProblemError(NoClock(str(device.info)))
    target = Target(device.limits, device.style if style is None else style)
    outcomes: list[Outcome] = []
    for subject in subjects(graph, target):
        outcomes.append(_searched(device, subject, target))
        watch(outcomes[-1])
    configs = {one.subject.whole.name: one.best for one in outcomes if one.gains}
    step = step_name(graph)
    choices = [UNTUNED, *(TunedConfigs("", configs, {step: fusing}) for fusing in FUSINGS)]
    plans = [plan_graph(graph, target.limits, target.style, each) for each in choices]
    different = list(dict.fromkeys(plans))
    times = dict(zip(different, _steps_of(device, graph, different), strict=True))
    after = {fusing: times[plan] for fusing, plan in zip(FUSINGS, plans[1:], strict=True)}
    best = min(FUSINGS, key=after.__getitem__)
    fusing = best if after[best] < (1 - GAIN) * after[DEFAULT_FUSION] else DEFAULT_FUSION
    return Tuning(step, tuple(outcomes), fusing, times[plans[0]], after[fusing])


def _searched(device: Device, subject: Subject, target: Target) -> Outcome:
    """First all ways, then the best of them in other numbers of parts."""
    whole, default = subject.whole, planned(subject.whole, target)
    race = _Race(device, subject, target)
    race.run(first_configs(whole, target))
    race.run(nearby_configs(race.best, default, whole, target.style))
    best = race.best
    if race.seconds[best] > (1 - GAIN) * race.seconds[default]:
        best = default
    return Outcome(
        subject,
        default,
        best,
        race.seconds[default],
        race.seconds[best],
        len(race.seconds) + len(race.refused),
        tuple(race.refused),
    )


class _Race:
    """The ways of one contraction that were tried, and their times."""

    def __init__(self, device: Device, subject: Subject, target: Target) -> None:
        self._device, self._subject, self._target = device, subject, target
        self._feeds = example_of(subject.graph).feeds
        self._first: tuple[KernelConfig, Plan] | None = None
        self._expected: Array | None = None
        self._largest = 0.0
        self.seconds: dict[KernelConfig, float] = {}
        self.refused: list[str] = []

    @property
    def best(self) -> KernelConfig:
        """The fastest so far; the first of equals."""
        return min(self.seconds, key=self.seconds.__getitem__)

    def run(self, configs: Sequence[KernelConfig]) -> None:
        """Time the configs not tried yet. The first has to run; others must match its results."""
        limits = self._target.limits
        new = [
            config
            for config in configs
            if config not in self.seconds and is_possible(config, limits)
        ]
        plans = list(self._plans(new))
        if self._first is None:
            self._first = plans.pop(0)
        self._device.compile([text for _, plan in (self._first, *plans) for text in plan.kernels])
        size = max(
            sum(buffer.bytes for buffer in plan.buffers) for _, plan in (self._first, *plans)
        )
        together = max(1, min(MOST_AT_ONCE, AT_ONCE // size))
        is_timed = self._first[0] in self.seconds
        for start in range(0, max(len(plans), 0 if is_timed else 1), together):
            self._take_turns([self._first, *plans[start : start + together]])

    def _plans(self, configs: Sequence[KernelConfig]) -> Iterator[tuple[KernelConfig, Plan]]:
        limits, style = self._target.limits, self._target.style
        for config in configs:
            choices = TunedConfigs("", {self._subject.whole.name: config})
            try:
                yield config, plan_graph(self._subject.graph, limits, style, choices)
            except LimitError as error:
                self._refuse(config, str(error))

    def _refuse(self, config: KernelConfig, why: str) -> None:
        self.refused.append(f"{config}: {why}")

    def _take_turns(self, plans: Sequence[tuple[KernelConfig, Plan]]) -> None:
        with ExitStack() as stack:
            ready: dict[KernelConfig, WebGpuSession] = {}
            for config, plan in plans:
                try:
                    session = stack.enter_context(WebGpuSession(plan, self._device))
                    found = session.step(self._feeds)["y"]
                except DeviceError as error:
                    if self._expected is None:
                        raise
                    self._refuse(config, str(error))
                    continue
                if self._matches(config, found):
                    ready[config] = session
            self._note(_turns(self._device, ready))

    def _note(self, turns: Sequence[Mapping[KernelConfig, float]]) -> None:
        """Each time as a share of the first way's in the same turn, whatever the clock was."""
        first, *others = turns[0]
        self.seconds.setdefault(first, statistics.median(turn[first] for turn in turns))
        for config in others:
            share = statistics.median(turn[config] / max(turn[first], 1e-9) for turn in turns)
            self.seconds[config] = share * self.seconds[first]

    def _matches(self, config: KernelConfig, found: Array) -> bool:
        """True if a way gives the numbers of the first."""
        if self._expected is None:
            self._expected = np.array(found)
            self._largest = max(float(np.abs(found).max()), 1e-30)
            return True
        difference = found - self._expected
        off = float(np.abs(difference, out=difference).max()) / self._largest
        if off <= TOLERANCES[found.itemsize]:
            return True
        self._refuse(config, f"its numbers are off by {off:.1g} of the largest")
        return False


def _turns(
    device: Device, ready: Mapping[KernelConfig, WebGpuSession]
) -> list[dict[KernelConfig, float]]:
    """The times of all, in turns in one submission, once the adapter's clock is up.

    Where a turn is long the clock is up by itself, and each is a separate submission: some
    systems take an adapter for lost that is busy for seconds.
    """
    kernels = {config: session.launches() for config, session in ready.items()}
    everything = [launch for launches in kernels.values() for launch in launches]
    seconds = sum(device.timed(everything))
    if seconds > LONG_TURN:
        times = chain.from_iterable(device.timed(everything) for _ in range(TURNS))
    else:
        times = iter(device.timed(everything * TURNS, warmup_runs(device, seconds)))
    return [
        {config: sum(islice(times, len(launches))) for config, launches in kernels.items()}
        for _ in range(TURNS)
    ]


def _steps_of(device: Device, graph: Graph, plans: Sequence[Plan]) -> list[float]:
    """The time of a step of each plan, measured in turns; one with other results takes for ever."""
    example = example_of(graph)
    times: list[list[float]] = [[] for _ in plans]
    expected: dict[str, Array] = {}
    for _ in range(REPETITIONS):
        for plan, found in zip(plans, times, strict=True):
            with WebGpuSession(plan, device) as session:
                session.load(example.persistent)
                results = dict(session.step(example.feeds))
                results |= {name: session.read(name) for name in graph.updates}
                expected = expected or results
                same = all(_is_near(results[name], array) for name, array in expected.items())
                found.append(step_seconds(session, example) if same else inf)
    return [statistics.median(each) for each in times]


def _is_near(found: Array, expected: Array) -> bool:
    """True if sums in another order may explain the difference; of floats, as others are exact."""
    if not np.issubdtype(expected.dtype, np.floating):
        return bool(np.array_equal(found, expected))
    finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(found), finite):
        return False
    difference = np.abs(found[finite].astype(np.float64) - expected[finite])
    largest = max(float(np.abs(expected[finite]).max(initial=0)), 1e-30)
    return float(difference.max(initial=0)) <= STEP_TOLERANCE * largest
