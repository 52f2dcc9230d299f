"""A step of a plan, kernel by kernel, by the adapter's own clock.

Each kernel runs in its own pass, so that none overlaps the next. Every time is the median of
several steps.
"""

import statistics

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.device_problems import NoClock
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.profile import RUNS, Piece, Profile, rows_of
from meganeura_runtime.backends.timing.step_timer import host_seconds, step_seconds
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.clock_warmup import warmup_runs
from meganeura_runtime.backends.webgpu.timing.device_peaks import peaks_of

ADAPTER_CLOCK = "the adapter's clock, each kernel in a pass of its own"


def profile_on(device: Device, graph: Graph, plan: Plan) -> Profile:
    """A step of a plan of a graph, on made-up numbers; raises `ProblemError` without a clock."""
    if not device.has_clock:
        raise ProblemError(NoClock(str(device.info)))
    peaks = peaks_of(device)
    example = example_of(graph)
    with WebGpuSession(plan, device) as session:
        session.load(example.persistent)
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
        for one, time in zip(
            (plan.dispatches[number] for number in plan.order), seconds, strict=True
        )
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
