"""The kernels of traced steps, by the adapter's clock, at the host's time.

While a step is traced each of its kernels runs in its own pass, which costs what they could
have overlapped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends.base import Outputs, Session, Uploaded
from meganeura_runtime.backends.device_problems import NoClock
from meganeura_runtime.backends.timing.timeline import Level, Moment, Timeline
from meganeura_runtime.backends.timing.tracer import MEBI, Tracer, with_line
from meganeura_runtime.backends.webgpu.device.device import Device, Launch, Range
from meganeura_runtime.backends.webgpu.device.gpu_timestamps import GpuTimestamps
from meganeura_runtime.backends.webgpu.plan import Dispatch, Role
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.support.tracing import Span, unobserved

KERNELS = "kernels"
TRIALS = 10
"""The number of comparisons of the clocks of host and adapter."""
NOTHING = """\
@group(0) @binding(0) var<storage, read_write> b0: array<u32>;

@compute @workgroup_size(1)
fn main() {
    b0[0] = 1u;
}
"""


@dataclass(frozen=True)
class TimedRun:
    """The kernels of a traced step, and their times once they are read."""

    step: int
    dispatches: Sequence[Dispatch]
    stamps: GpuTimestamps
    since: float
    """A moment of the host before any of them ran."""


class AdapterTracer(Tracer):
    """Times the kernels of traced steps; the device reports to a trace what its host code does."""

    def __init__(self, timeline: Timeline, device: Device, span: Span) -> None:
        """Raises `ProblemError` where the adapter has no clock."""
        super().__init__(timeline)
        if not device.has_clock:
            raise ProblemError(NoClock(str(device.info)))
        self._device = device
        self._timed: list[TimedRun] = []
        self._bounds = _clock_bounds(device)
        device.span = span

    def step(self, session: Session, feeds: Mapping[str, Array] | Uploaded, number: int) -> Outputs:
        """Run a step with a clock around each kernel; the times are read when the run is over."""
        if not isinstance(session, WebGpuSession):
            raise TypeError(f"{session} is of another device")

        def record(launches: Sequence[Launch], stamps: GpuTimestamps) -> None:
            if launches:
                run = [session.plan.dispatches[each] for each in session.plan.order]
                timed = TimedRun(number, run, stamps, perf_counter())
                self._timed.append(timed)

        self.timeline.levels.append(_memory(session))
        self._device.timekeeper = record
        try:
            return session.step(feeds)
        finally:
            self._device.timekeeper = None

    def finish(self) -> None:
        """Read the times, once the kernels that are traced are done."""
        self._device.span = unobserved
        times = [(one, one.stamps.read()) for one in self._timed]
        offset = _offset(self._bounds, times)
        for one, stamps in times:
            self.timeline.kernels.extend(_moments(one, stamps, offset))
        self._timed.clear()


def _memory(session: WebGpuSession) -> Level:
    """Returns the uses of a device's memory."""
    amounts = {role.value: session.plan.bytes_for(role) / MEBI for role in Role}
    others = session.device.allocated / MEBI - sum(amounts.values())
    return Level("device memory, MiB", perf_counter(), {**amounts, "others": max(0.0, others)})


def _moments(
    one: TimedRun, stamps: Sequence[tuple[float, float]], offset: float
) -> Iterator[Moment]:
    """A step on the adapter and its kernels, none of which begins before the last has ended."""
    last = stamps[0][0]
    shown: list[Moment] = []
    for dispatch, (began, ended) in zip(one.dispatches, stamps, strict=True):
        start = max(began, last)
        last = max(start, ended)
        name = with_line(dispatch.name, dispatch.origin)
        shown.append(Moment(KERNELS, name, start + offset, last + offset, _details(dispatch)))
    yield Moment(KERNELS, f"step {one.step + 1}", shown[0].start, shown[-1].end)
    yield from shown


def _details(dispatch: Dispatch) -> dict[str, object]:
    return {
        "location": dispatch.origin,
        "kernel": dispatch.kernel,
        "workgroups": " x ".join(map(str, dispatch.workgroups)),
        "flops": dispatch.flops,
        "bytes": dispatch.bytes,
    }


# --- clocks ------------------------------------------------------------------------------------


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
    bounds: tuple[float, float], times: Sequence[tuple[TimedRun, Sequence[tuple[float, float]]]]
) -> float:
    """Returns the host clock's lead, so that no kernel ran before it was encoded."""
    least, most = bounds
    seen = [one.since - stamps[0][0] for one, stamps in times]
    return max([(least + most) / 2, *seen])
