"""A trace of a run: what the host did, when each kernel ran, and the memory taken.

Only a few steps are traced, after some that warm up, so that the file stays small; evaluations and
checkpoints are traced whenever they happen. While a step is traced each of its kernels runs in a
pass of its own, which costs what they could have overlapped.
"""

import math
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph, Value
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.errors import describe
from meganeura_runtime.backends.inference_session import OpenSession
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.session_proxy import SessionProxy
from meganeura_runtime.backends.webgpu.device.device import Device, Launch, Range
from meganeura_runtime.backends.webgpu.device.gpu_timestamps import GpuTimestamps
from meganeura_runtime.backends.webgpu.plan import Dispatch, Role
from meganeura_runtime.backends.webgpu.schedule.kernel_names import op_name
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.timing_problems import NoClock
from meganeura_runtime.profiling.timeline import HOST_TRACK, Level, Moment, Timeline
from meganeura_runtime.support.tracing import unobserved

WARM = 3
"""Steps before the first that is traced: kernels are compiled, and clocks are up."""
STEPS = 5
"""Steps that are traced."""
ENOUGH = WARM + STEPS
"""Steps of a run that is made for the sake of its trace."""
ALWAYS = ("compile", "train_epoch", "evaluation", "checkpoint")
"""What is traced whenever it happens."""
TRIALS = 10
"""How often the clocks of host and adapter are compared."""
NOTHING = """\
@group(0) @binding(0) var<storage, read_write> b0: array<u32>;

@compute @workgroup_size(1)
fn main() {
    b0[0] = 1u;
}
"""


@dataclass(frozen=True)
class Kept:
    """The kernels of a traced step, and their times once they are read."""

    step: int
    dispatches: Sequence[Dispatch]
    stamps: GpuTimestamps
    since: float
    """A moment of the host before any of them ran."""


class Trace:
    """Collects what happens during a run; `finish` gives it as a timeline."""

    def __init__(self, device: Device | None, steps: int = ENOUGH) -> None:
        """Trace a run of so many steps. Raises `ProblemError` where the adapter has no clock."""
        if device is not None and not device.has_clock:
            raise ProblemError(NoClock(str(device.info)))
        self.device = device
        self.is_on = False
        self.kept: list[Kept] = []
        self.timeline = Timeline("cpu" if device is None else device.info.name, perf_counter())
        self._first = max(0, min(WARM, steps - STEPS))
        self._is_open = False
        self._bounds = (0.0, 0.0) if device is None else _clock_bounds(device)
        if device is not None:
            device.span = self.span

    @contextmanager
    def span(self, name: str) -> Generator[None]:
        """Trace what the host does inside, if it is time."""
        start = perf_counter()
        try:
            yield
        finally:
            if self.is_on or name in ALWAYS:
                thread = threading.current_thread()
                track = HOST_TRACK if thread is threading.main_thread() else thread.name
                self.timeline.host.append(Moment(track, name, start, perf_counter()))

    def opening(self, open_session: OpenSession) -> OpenSession:
        """Opens sessions as that does; the first of them is traced."""

        def begin(graph: Graph) -> Session:
            session = open_session(graph)
            if self._is_open:
                return session
            self._is_open = True
            return TracedSession(graph, session, self)

        return begin

    def is_due(self, step: int) -> bool:
        """Whether a step, counted from 0, is one of those that are traced."""
        return self._first <= step < self._first + STEPS

    def finish(self) -> Timeline:
        """All that was collected, once the kernels that are traced are done."""
        self.is_on = False
        if self.device is not None:
            self.device.span = unobserved
        times = [(one, one.stamps.read()) for one in self.kept]
        offset = _offset(self._bounds, times)
        for one, stamps in times:
            self.timeline.kernels.extend(_moments(one, stamps, offset))
        self.kept.clear()
        return self.timeline


class TracedSession(SessionProxy):
    """A session that tells a trace of some of its steps."""

    def __init__(self, graph: Graph, inner: Session, trace: Trace) -> None:
        super().__init__(graph, inner)
        self._trace = trace
        self._made = 0

    def kept(self) -> dict[str, Array]:
        """Read all parameters and states."""
        return self._inner.kept()

    def _put(self, name: str, array: Array) -> None:
        self._inner.write(name, array)

    def _get(self, name: str) -> Array:
        return self._inner.read(name)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        number, self._made = self._made, self._made + 1
        self._trace.is_on = self._trace.is_due(number)
        if not self._trace.is_on:
            return self._inner.step(feeds)
        with self._trace.span(f"step {number + 1}"):
            match self._inner:
                case WebGpuSession() as session:
                    return self._on_device(session, feeds, number)
                case ReferenceSession() as session:
                    return self._on_host(session, feeds, number)
                case session:
                    return session.step(feeds)

    def _on_device(
        self, session: WebGpuSession, feeds: Mapping[str, Array] | Uploaded, number: int
    ) -> Outputs:
        def told(launches: Sequence[Launch], stamps: GpuTimestamps) -> None:
            if launches:
                kept = Kept(number, session.plan.dispatches, stamps, perf_counter())
                self._trace.kept.append(kept)

        device = session.device
        self._trace.timeline.levels.append(_memory(session))
        device.timekeeper = told
        try:
            return session.step(feeds)
        finally:
            device.timekeeper = None

    def _on_host(
        self, session: ReferenceSession, feeds: Mapping[str, Array] | Uploaded, number: int
    ) -> Outputs:
        kernels = self._trace.timeline.kernels

        def told(value: Value, start: float, end: float) -> None:
            name = _named(str(op_name(value)), describe(value.origin))
            kernels.append(Moment(OPS, name, start, end))

        before, start = len(kernels), perf_counter()
        types = {Role.PARAMETERS: self._kept, Role.INPUTS: self._inputs}
        amounts = {
            role.value: sum(map(size_in_bytes, each.values())) / MEBI
            for role, each in types.items()
        }
        self._trace.timeline.levels.append(Level("memory, MiB", start, amounts))
        session.watch = told
        try:
            return session.step(feeds)
        finally:
            session.watch = None
            kernels.insert(before, Moment(OPS, f"step {number + 1}", start, perf_counter()))


OPS = "ops"
KERNELS = "kernels"


def _named(name: str, origin: str) -> str:
    """A kernel or op with its line in the program."""
    line = origin.partition(" ")[0]
    return f"{name}  [{line}]" if line else name


def _memory(session: WebGpuSession) -> Level:
    """What the memory of a device is taken by."""
    amounts = {role.value: session.plan.bytes_for(role) / MEBI for role in Role}
    others = session.device.allocated / MEBI - sum(amounts.values())
    return Level("device memory, MiB", perf_counter(), {**amounts, "others": max(0.0, others)})


MEBI = 1 << 20


def _moments(one: Kept, stamps: Sequence[tuple[float, float]], offset: float) -> Iterator[Moment]:
    """A step on the adapter and its kernels, none of which begins before the last has ended."""
    last = stamps[0][0]
    shown: list[Moment] = []
    for dispatch, (began, ended) in zip(one.dispatches, stamps, strict=True):
        start = max(began, last)
        last = max(start, ended)
        name = _named(dispatch.name, dispatch.origin)
        shown.append(Moment(KERNELS, name, start + offset, last + offset, _details(dispatch)))
    yield Moment(KERNELS, f"step {one.step + 1}", shown[0].start, shown[-1].end)
    yield from shown


def _details(dispatch: Dispatch) -> dict[str, object]:
    return {
        "place": dispatch.origin,
        "kernel": dispatch.kernel,
        "workgroups": " x ".join(map(str, dispatch.workgroups)),
        "flops": dispatch.flops,
        "bytes": dispatch.bytes,
    }


# --- clocks --------------------------------------------------------------------------------------


def _clock_bounds(device: Device) -> tuple[float, float]:
    """The least and the most that the host's clock may be ahead of the adapter's.

    A kernel runs between a moment before it is submitted and one after it is known to be done.
    """
    at = Range(device.allocate(16), 0, 16)
    launch = device.launch(NOTHING, [at], (1, 1, 1))
    least, most = -math.inf, math.inf
    for _ in range(TRIALS):
        before = perf_counter()
        ((start, end),) = device.stamped([launch])
        least, most = max(least, before - start), min(most, perf_counter() - end)
    device.free(at.buffer)
    return least, most


def _offset(
    bounds: tuple[float, float], times: Sequence[tuple[Kept, Sequence[tuple[float, float]]]]
) -> float:
    """By how much the host's clock is ahead, so that no kernel ran before it was encoded."""
    least, most = bounds
    seen = [one.since - stamps[0][0] for one, stamps in times]
    return max([(least + most) / 2, *seen])
