"""Recomputation in training steps, so that a run stays within the setting `memory`."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.transforms.checkpoint_loops import stored_by_loops
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.training_step import TrainingSettings
from meganeura_runtime.backends.backend import Backend, OpenDevice, Spread
from meganeura_runtime.backends.compile_cache import cached_inference, cached_training_step
from meganeura_runtime.backends.errors import DeviceError, LimitError
from meganeura_runtime.backends.memory_roles import StepMemory


@dataclass(frozen=True)
class RunMemory:
    """The memory of a training step, and of the evaluation whose session stays open beside it."""

    step: StepMemory
    evaluation: StepMemory

    @property
    def bytes(self) -> int:
        """The most that both together take at a time."""
        return self.step.beside(self.evaluation)


@dataclass(frozen=True, eq=False)
class PlannedStep:
    """An optimized training step, and what a run of it takes."""

    graph: Graph
    settings: TrainingSettings
    """The settings of `graph`, which say what is recomputed."""
    memory: RunMemory
    recomputes: bool
    """True if scans run in segments, whose iterations the gradient computes again."""


@dataclass(frozen=True, eq=False)
class StepPlanner:
    """Plans the steps of a run for a device, or for any of a backend where that is `None`."""

    backend: Backend
    device: OpenDevice | None
    rewriting: RewriteOptions

    def plan(
        self, forward: Graph, settings: TrainingSettings, evaluation: Graph, available: int | None
    ) -> PlannedStep:
        """The step that recomputes least of those that take no more than is available.

        If none does, the one in which every scan that can be recomputed is. Scans that store most
        are recomputed first. Raises `LimitError` if that step has a value that is larger than a
        limit of the device, `DeviceError` where the backend does not say what a step takes, and
        `ProblemError` as the optimizer does.
        """
        stored = sorted({0, *stored_by_loops(forward)}, reverse=True)

        @cache
        def planned(sizes: int) -> PlannedStep:
            above = stored[sizes] if sizes else None
            recomputing = replace(settings, recompute_above=above)
            graph = cached_training_step(forward, recomputing, self.rewriting)
            return PlannedStep(graph, recomputing, self._memory(graph, evaluation), sizes > 0)

        def fits(sizes: int) -> bool:
            try:
                return available is None or planned(sizes).memory.bytes <= available
            except LimitError:
                return available is None

        least = bisect_left(range(len(stored)), x=True, key=fits)
        return planned(min(least, len(stored) - 1))

    def _memory(self, step: Graph, evaluation: Graph) -> RunMemory:
        measured = evaluation
        if self.rewriting.enabled:
            measured = cached_inference(evaluation, self.rewriting).graph
        found = [self.backend.memory(each, self.device) for each in (step, measured)]
        if found[0] is None or found[1] is None:
            name = self.backend.name
            raise DeviceError(f"`{name}` does not say what a step takes before it runs")
        return RunMemory(found[0], found[1])


def device_of_run(device: OpenDevice, settings: RunSettings, rows: Mapping[str, int]) -> OpenDevice:
    """A device as a run uses it: in its precision, and as several where the settings ask for it.

    `rows` are those of inputs that have some for each example.
    """
    device = device.at(settings.precision)
    if settings.devices > 1:
        sharding = DeviceSharding(settings.sharding)
        device = device.spread(Spread(settings.devices, sharding, rows))
    return device


__all__ = ["PlannedStep", "RunMemory", "StepPlanner", "device_of_run"]
