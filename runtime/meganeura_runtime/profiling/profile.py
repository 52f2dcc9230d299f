"""What a step takes, kernel by kernel, beside what the device could do.

Kernels are timed by the adapter's own clock, each in a pass of its own, so that none overlaps the
next; on the CPU, ops are timed by the host's. Every time is the median of several steps.
"""

import statistics
import tracemalloc
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.errors import describe
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule.kernel_names import op_name
from meganeura_runtime.backends.webgpu.schedule.roofline import kernel_flops
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.clock_warmup import warmup_runs
from meganeura_runtime.backends.webgpu.timing.device_peaks import Peaks, peaks_of, peaks_of_numpy
from meganeura_runtime.backends.webgpu.timing.example_inputs import example_of
from meganeura_runtime.backends.webgpu.timing.step_timer import host_seconds, step_seconds
from meganeura_runtime.backends.webgpu.timing.timing_problems import NoClock

RUNS = 5
"""Profiled steps; each time is the median of so many."""

ADAPTER_CLOCK = "the adapter's clock, each kernel in a pass of its own"
HOST_CLOCK = "the host's clock, op by op"


@dataclass(frozen=True, slots=True)
class Piece:
    """One kernel or op of a step, and what it took; alike are those of one group."""

    name: str
    kind: str
    place: str
    group: Hashable
    seconds: float
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """Pieces that are alike, together."""

    name: str
    kind: str
    places: tuple[str, ...]
    calls: int
    seconds: float
    flops: int
    bytes: int


@dataclass(frozen=True)
class Profile:
    """Where the time and the memory of a step go."""

    clock: str
    peaks: Peaks
    rows: tuple[Row, ...]
    """The dearest first."""
    step: float
    """Seconds of a step, while many follow each other."""
    host: Mapping[str, float]
    """Seconds of a step that the host works for the adapter, by what it does."""
    memory: Mapping[str, int]
    """Bytes, by what they are for."""
    least: int | None
    """Bytes that temporaries need however they are placed, where that is known."""
    choices: str = ""
    """Where choices are from that were made otherwise than the planner would; empty if none."""

    @property
    def kernels(self) -> float:
        """Seconds of all rows together."""
        return sum(row.seconds for row in self.rows)

    def roofline(self, row: Row) -> float:
        """The time the peaks allow, as a share of the time it took."""
        return self.peaks.seconds(row.flops, row.bytes) / max(row.seconds, 1e-12)

    def kinds(self) -> tuple[Row, ...]:
        """The rows of each kind together, the dearest first."""
        return _grouped((row.kind, row) for row in self.rows)


def profile_on(device: Device, graph: Graph, plan: Plan) -> Profile:
    """A step of a plan of a graph, on made-up numbers; raises `ProblemError` without a clock."""
    if not device.has_clock:
        raise ProblemError(NoClock(str(device.info)))
    peaks = peaks_of(device)
    example = example_of(graph)
    with WebGpuSession(plan, device) as session:
        session.load(example.kept)
        step, host = step_seconds(session, example), host_seconds(session, example)
        before = warmup_runs(device, step)
        times = [session.profile(before) for _ in range(RUNS)]
    seconds = [statistics.median(each) for each in zip(*times, strict=True)]
    pieces = [
        Piece(
            one.name,
            one.kind,
            one.origin,
            (one.name, one.kernel, one.workgroups),
            time,
            one.flops,
            one.bytes,
        )
        for one, time in zip(plan.dispatches, seconds, strict=True)
    ]
    memory = {role.value: plan.bytes_for(role) for role in Role}
    return Profile(
        ADAPTER_CLOCK,
        peaks,
        rows_of(pieces),
        step,
        host,
        memory,
        plan.least_bytes,
        plan.choices,
    )


def profile_on_cpu(graph: Graph) -> Profile:
    """A step of a graph by the reference interpreter, on made-up numbers."""
    peaks = peaks_of_numpy()
    example = example_of(graph)
    with ReferenceSession(graph) as session:
        session.load(example.kept)
        step = step_seconds(session, example)
        runs: list[list[tuple[Value, float]]] = []
        for _ in range(RUNS):
            told: list[tuple[Value, float]] = []
            session.watch = _keeper(told)
            session.step(example.feeds)
            runs.append(told)
        session.watch = None
        peak = _peak_bytes(lambda: session.step(example.feeds))
    pieces = [
        _op_piece(value, statistics.median(each[number][1] for each in runs))
        for number, (value, _) in enumerate(runs[0])
    ]
    memory = {
        Role.PARAMETERS.value: sum(array.nbytes for array in example.kept.values()),
        Role.INPUTS.value: sum(array.nbytes for array in example.feeds.values()),
        Role.TEMPORARIES.value: peak,
    }
    return Profile(HOST_CLOCK, peaks, rows_of(pieces), step, {}, memory, None)


def rows_of(pieces: Iterable[Piece]) -> tuple[Row, ...]:
    """The pieces of each group together, the dearest first."""
    rows = ((one.group, _row(one)) for one in pieces)
    return _grouped(rows)


def _row(one: Piece) -> Row:
    return Row(one.name, one.kind, (one.place,), 1, one.seconds, one.flops, one.bytes)


def _grouped(rows: Iterable[tuple[Hashable, Row]]) -> tuple[Row, ...]:
    groups: dict[Hashable, list[Row]] = {}
    for key, row in rows:
        groups.setdefault(key, []).append(row)
    return tuple(sorted(map(_sum, groups.values()), key=lambda row: -row.seconds))


def _sum(rows: Sequence[Row]) -> Row:
    places = tuple(dict.fromkeys(place for row in rows for place in row.places))
    first = rows[0]
    return Row(
        first.name,
        first.kind,
        places,
        sum(row.calls for row in rows),
        sum(row.seconds for row in rows),
        sum(row.flops for row in rows),
        sum(row.bytes for row in rows),
    )


# --- parts ---------------------------------------------------------------------------------------


def _keeper(told: list[tuple[Value, float]]) -> Callable[[Value, float, float], None]:
    return lambda value, start, end: told.append((value, end - start))


def _peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that arrays take during a run, besides what there was before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _op_piece(value: Value, seconds: float) -> Piece:
    title = op_name(value)
    moved = 0
    if Trait.VIEW not in value.op.traits:  # NumPy moves nothing for most views
        types = {each.id: each.type for each in (value, *value.operands)}
        moved = sum(map(size_in_bytes, types.values()))
    origin = describe(value.origin)
    return Piece(str(title), title.kind, origin, str(title), seconds, kernel_flops([value]), moved)
