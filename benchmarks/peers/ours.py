"""Ours: a plan on an adapter."""

import statistics
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import numpy as np

from benchmarks.peers.case import LOSSES, Material, Prepared, Values, optimized
from benchmarks.peers.contender import Absent, Running
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.inference_session import Derivation
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession

RESIDENT, FED, ROUND_TRIP = "ours", "ours, fed", "ours, there and back"


class Ours:
    """A session whose inputs stay on the device, or are fed in every step.

    An inference is also timed there and back: fed, run, and its output read.
    """

    name = "ours"

    def __init__(self, selector: str, prepared: Prepared | None = None) -> None:
        self._selector = selector
        self._prepared = prepared
        self._device: Device | None = None

    def columns(self, *, trains: bool) -> tuple[str, ...]:
        """What it is timed for."""
        return (RESIDENT, FED) if trains else (RESIDENT, FED, ROUND_TRIP)

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Plan a case, and open a session."""
        device = self._opened()
        graph, derived = optimized(one) if self._prepared is None else self._prepared[one.case.name]
        plan = plan_graph(graph, device.limits, device.style)
        with ExitStack() as stack:
            session = stack.enter_context(WebGpuSession(plan, device))
            session.load(kept(graph, derived, one.weights))
            first = next(iter(graph.outputs))
            count = LOSSES if one.case.trains else 1
            found = [np.asarray(session.step(one.inputs)[first]) for _ in range(count)]
            uploaded = stack.enter_context(session.upload(one.inputs))
            steps = {
                RESIDENT: lambda: session.step(uploaded),
                FED: lambda: session.step(one.inputs),
                ROUND_TRIP: lambda: session.step(one.inputs)[first],
            }
            yield Running(
                np.stack(found) if one.case.trains else found[0],
                {name: steps[name] for name in self.columns(trains=one.case.trains)},
                session.wait,
                {
                    "ours: kernels": lambda: _kernels_ms(session),
                    "ours: dispatches": lambda: float(len(plan.dispatches)),
                    "ours: MiB": lambda: sum(map(plan.bytes_for, Role)) / 2**20,
                },
            )

    def _opened(self) -> Device:
        if self._device is None:
            try:
                self._device = open_device(self._selector)
            except DeviceError as error:
                raise Absent(str(error)) from error
        return self._device

    def __str__(self) -> str:
        return str(self._opened())


def _kernels_ms(session: WebGpuSession) -> float:
    """The sum of the kernels' times by the adapter's clock."""
    return 1e3 * statistics.median(sum(session.profile(before=3)) for _ in range(5))


def kept(graph: Graph, derived: Graph, weights: Values) -> Values:
    """What a session is loaded with: weights, what follows from them, and zeros."""
    everything = {**weights, **Derivation(derived)(weights)}
    return {
        value.op.name: everything.get(value.op.name, _zeros(value.type.shape))
        for value in graph.values
        if isinstance(value.op, Leaf) and value.op.is_kept
    }


def _zeros(shape: tuple[object, ...]) -> Array:
    return np.zeros(tuple(int(str(size)) for size in shape), np.float32)
