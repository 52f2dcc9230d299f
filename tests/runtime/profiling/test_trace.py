"""Traces: each kernel of each traced step once, by name and line, within its step."""

import json
import threading
from collections import Counter
from time import perf_counter
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Array, Builder, Graph, Origin
from meganeura_dsl.ir.ops import Add, Input, MatMul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_dsl.support.phases import phase, recorded
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.timing.timeline import Level, Moment, Timeline
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.device.gpu_timestamps import GpuTimestamps
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.plan import Dispatch
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing import trace as trace_module
from meganeura_runtime.backends.webgpu.timing.trace import TimedRun
from meganeura_runtime.profiling.trace import ENOUGH, STEPS, WARM, Trace
from meganeura_runtime.support.tracing import unobserved
from tests.dsl.ir.test_stopping_loops import COUNTING
from tests.runtime.profiling.traces import drawn
from tests.scans import forward

SOURCE = Source("net.mgn", "model net:\n    y = x @ w\n")
FEEDS: dict[str, Array] = {"x": np.ones((40, 40), np.float32)}


def graph() -> Graph:
    """Two products of a line of a program, and an update of no line."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (40, 40)))
    w = build.add(Parameter("w", DType.F32, (40, 40), "param"))
    start = SOURCE.text.index("y =")
    with build.at(Origin(Span(SOURCE, start, start + 1), "head")):
        y = build.add(MatMul(), build.add(MatMul(), x, w), w)
    return build.graph({"y": y}, {"w": build.add(Add(), w, x)})


def run(session: Session, steps: int) -> list[Array]:
    session.write("w", np.zeros((40, 40), np.float32))
    return [np.array(session.step(FEEDS)["y"]) for _ in range(steps)]


@pytest.mark.adapter
def test_every_kernel_of_a_traced_step_is_there_once_within_it(device: Device) -> None:
    plan = plan_graph(graph(), device.limits, device.style)
    trace = Trace(OpenAdapter.of(WebGpuBackend(), device))
    begin = trace.opening(lambda _: WebGpuSession(plan, device))
    with begin(graph()) as session, begin(graph()) as other:
        found = run(session, ENOUGH + 2)
        run(other, 2)
    shown = drawn(trace.finish().text())
    steps = [one for one in shown.device if one.name.startswith("step ")]
    assert [one.name for one in steps] == [f"step {WARM + n + 1}" for n in range(STEPS)]
    for step in steps:
        inside = [one for one in shown.device if one is not step and step.holds(one)]
        lines = [f"{one.name}  [net.mgn:2]" if one.origin else one.name for one in plan.dispatches]
        assert Counter(one.name for one in inside) == Counter(lines)
        assert sum(int(str(one.details["flops"])) for one in inside) == sum(
            one.flops for one in plan.dispatches
        )
    assert len(shown.device) == STEPS * (1 + len(plan.dispatches))
    np.testing.assert_array_equal(found[-1], np.full((40, 40), 40.0 * 40 * (ENOUGH + 1) ** 2))


@pytest.mark.adapter
def test_every_iteration_of_a_loop_is_traced(device: Device) -> None:
    looping = forward(COUNTING.format(place="t", condition="t < 3"), n=2, s=5)
    plan = plan_graph(looping, device.limits, device.style)
    assert len(plan.order) > len(plan.dispatches)
    trace = Trace(OpenAdapter.of(WebGpuBackend(), device))
    with trace.opening(lambda _: WebGpuSession(plan, device))(looping) as session:
        for _ in range(ENOUGH):
            session.step({"x": np.ones((2, 5, 2), np.float32)})
    assert len(drawn(trace.finish().text()).device) == STEPS * (1 + len(plan.order))


@pytest.mark.adapter
def test_the_host_s_work_lies_within_its_step_and_kernels_after_their_encoding(
    device: Device,
) -> None:
    plan = plan_graph(graph(), device.limits, device.style)
    trace = Trace(OpenAdapter.of(WebGpuBackend(), device))
    with trace.opening(lambda _: WebGpuSession(plan, device))(graph()) as session:
        run(session, ENOUGH)
        with trace.span("evaluation"):
            pass
    shown = drawn(trace.finish().text())
    for number in range(WARM, WARM + STEPS):
        (step,) = [one for one in shown.host if one.name == f"step {number + 1}"]
        names = {one.name for one in shown.host if one is not step and step.holds(one)}
        assert {"copy inputs", "encode", "submit"} <= names
        (encoding,) = [one for one in shown.host if one.name == "encode" and step.holds(one)]
        (kernels,) = [one for one in shown.device if one.name == step.name]
        assert kernels.start >= encoding.start
    assert [one.name for one in shown.host].count("evaluation") == 1
    assert "read back" in {one.name for one in shown.host}
    assert len(shown.levels) == STEPS
    assert set(shown.levels[0]) == {
        "parameters",
        "inputs",
        "outputs",
        "temporaries",
        "others",
    }


@pytest.mark.parametrize(
    ("bounds", "began", "offset"),
    [
        ((4.0, 6.0), [], 5.0),
        ((4.0, 6.0), [(102.0, 98.0)], 5.0),
        ((4.0, 6.0), [(102.0, 98.0), (110.5, 105.0), (120.0, 116.0)], 5.5),
    ],
)
def test_the_clock_of_a_host_is_as_far_ahead_as_shows_no_kernel_before_it_was_encoded(
    bounds: tuple[float, float], began: list[tuple[float, float]], offset: float
) -> None:
    """In the middle of what is possible, unless a step was encoded later by the host's clock."""
    times = [
        (TimedRun(0, (), cast("GpuTimestamps", None), since), [(start, start + 1), (9e9, 9e9)])
        for since, start in began
    ]
    assert trace_module._offset(bounds, times) == offset


def test_the_clock_of_a_host_is_between_before_a_kernel_began_and_after_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The narrowest of all bounds counts, of whichever kernels."""
    stamps = [(float(n), n + 0.25) for n in range(trace_module.TRIALS)]
    earlier = [1.0, 2.0, 0.5, *[3.0] * 7]
    later = [4.0, 1.5, *[2.5] * 8]
    times = iter(
        time
        for (start, end), ahead, behind in zip(stamps, earlier, later, strict=True)
        for time in (start + 100 - ahead, end + 100 + behind)
    )
    monkeypatch.setattr(trace_module, "perf_counter", lambda: next(times))
    runs = iter(stamps)
    device = SimpleNamespace(
        allocate=lambda _: None,
        launch=lambda *_: None,
        stamped=lambda _: [next(runs)],
        free=lambda _: None,
    )
    assert trace_module._clock_bounds(cast("Device", device)) == (99.5, 101.5)


def test_kernels_of_a_step_are_shown_one_after_another() -> None:
    """At the time of the host; one that ran beside the last one begins where that ended."""
    dispatches = [Dispatch(name, "map", "", 0, (), (1, 1, 1), 0, 0) for name in "abc"]
    run = TimedRun(6, dispatches, cast("GpuTimestamps", None), 0.0)
    stamps = [(1.0, 3.0), (2.0, 2.5), (4.0, 6.0)]
    found = [(each.name, each.start, each.end) for each in trace_module._moments(run, stamps, 10)]
    assert found == [("step 7", 11, 16), ("a", 11, 13), ("b", 13, 13), ("c", 14, 16)]


@pytest.mark.adapter
def test_a_device_forgets_a_trace_that_is_finished(device: Device) -> None:
    trace = Trace(OpenAdapter.of(WebGpuBackend(), device))
    assert device.span != unobserved
    trace.finish()
    assert device.span == unobserved
    assert device.timekeeper is None


@pytest.mark.adapter
def test_an_adapter_without_a_clock_is_told_so(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_clock", False)
    with pytest.raises(ProblemError, match="E0590"):
        Trace(OpenAdapter.of(WebGpuBackend(), device))


def test_the_ops_of_the_reference_device_are_traced_by_line() -> None:
    trace = Trace(choose_device("cpu"))
    with trace.opening(ReferenceSession)(graph()) as session:
        run(session, ENOUGH)
    shown = drawn(trace.finish().text())
    names = Counter(one.name for one in shown.device)
    assert names["matmul 40x40x40  [net.mgn:2]"] == 2 * STEPS
    assert names["add 40x40"] == STEPS
    for one in shown.device:
        parents = [step for step in shown.device if step.name.startswith("step ")]
        assert any(parent.holds(one) for parent in parents)
    assert shown.levels[0] == {"parameters": 6400 / 2**20, "inputs": 6400 / 2**20}


@pytest.mark.parametrize(("steps", "first"), [(1, 0), (5, 0), (7, 2), (8, 3), (900, 3)])
def test_a_short_run_is_traced_from_as_late_as_there_are_steps_to_trace(
    steps: int, first: int
) -> None:
    trace = Trace(choose_device("cpu"), steps)
    assert [step for step in range(12) if trace.is_due(step)] == list(range(first, first + STEPS))


def test_a_recording_inside_of_another_ends_alone() -> None:
    with recorded() as outer:
        with recorded() as inner, phase("link"):
            pass
        with phase("parse"):
            pass
    assert [each.name for each in outer] == ["link", "parse"]
    assert [each.name for each in inner] == ["link"]


def test_a_phase_that_fails_is_told_as_well_with_its_thread() -> None:
    def failing() -> None:
        with pytest.raises(KeyError), phase("plan"):
            raise KeyError

    with recorded() as found:
        failing()
        worker = threading.Thread(target=failing, name="worker")
        worker.start()
        worker.join()
    assert [(each.name, each.thread) for each in found] == [("plan", ""), ("plan", "worker")]
    assert 0 < found[0].start <= found[0].end <= found[1].start


def test_a_timeline_is_shown_in_order_and_from_its_beginning() -> None:
    begin = perf_counter()
    line = Timeline("a device", begin)
    line.host.append(Moment("host", "inner", begin + 2e-6, begin + 3e-6))
    line.host.append(Moment("host", "outer", begin + 1e-6, begin + 5e-6))
    line.host.append(Moment("inputs", "early", begin - 1, begin + 1e-6, {"a": 1}))
    line.levels.append(Level("memory", begin + 1e-6, {"all": 2.5}))
    shown = drawn(line.text())
    assert [(one.track, one.name) for one in shown.host] == [
        ("inputs", "early"),
        ("host", "outer"),
        ("host", "inner"),
    ]
    assert shown.host[0].start == 0
    assert shown.host[1].end - shown.host[1].start == pytest.approx(4)
    assert shown.levels[0] == {"all": 2.5}
    assert shown.device == []


def test_what_began_first_and_lasted_longest_comes_first() -> None:
    """A viewer puts into each what comes behind it and lies within it."""
    timeline = Timeline("card", 10.0)
    for name, start, end in (
        ("in", 10.5, 10.75), ("out", 10.5, 11.0), ("before", 10.25, 10.5), ("deep", 10.5, 10.625),
    ):  # fmt: skip
        timeline.host.append(Moment("main", name, start, end))
    events = [each for each in json.loads(timeline.text())["traceEvents"] if each["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in events] == [
        ("before", 250_000, 250_000), ("out", 500_000, 500_000), ("in", 500_000, 250_000),
        ("deep", 500_000, 125_000),
    ]  # fmt: skip
