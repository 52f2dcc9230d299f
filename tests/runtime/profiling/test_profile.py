"""A profile accounts for every kernel and every byte of a plan."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Builder, Graph, Origin
from meganeura_dsl.ir.ops import Add, Gather, Input, MatMul, MaxPool, Parameter, Sub
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.reference.profile import peaks_of_numpy, profile_of
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.profile import Peaks, Piece, Profile, rows_of
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.timing.device_peaks import peaks_of
from meganeura_runtime.backends.webgpu.timing.profile import profile_on
from tests.dsl.ir.test_stopping_loops import COUNTING
from tests.scans import forward

SOURCE = Source("net.mgn", "model net:\n    y = x @ w\n")


def small_graph() -> Graph:
    """Two equal products, one after the other, and an update."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (6, 6)))
    w = build.add(Parameter("w", DType.F32, (6, 6), "param"))
    start = SOURCE.text.index("y =")
    with build.at(Origin(Span(SOURCE, start, start + 1), "head")):
        y = build.add(MatMul(), build.add(MatMul(), x, w), w)
    return build.graph({"y": y}, {"w": build.add(Add(), w, w)})


@pytest.mark.adapter
def test_every_dispatch_is_in_one_row(device: Device) -> None:
    graph = small_graph()
    plan = plan_graph(graph, device.limits, device.style)
    found = profile_on(device, graph, plan)
    assert sum(row.calls for row in found.rows) == len(plan.dispatches)
    assert sum(row.flops for row in found.rows) == sum(one.flops for one in plan.dispatches)
    assert sum(row.bytes for row in found.rows) == sum(one.bytes for one in plan.dispatches)
    assert found.kernels == pytest.approx(sum(row.seconds for row in found.kinds()))
    product = next(row for row in found.rows if row.kind == "matmul")
    assert (product.name, product.calls, product.flops) == ("matmul 6x6x6", 2, 2 * 2 * 6**3)
    assert product.locations == ("net.mgn:2 head",)
    assert found.memory == {role.value: plan.bytes_for(role) for role in Role}
    assert found.least == plan.least_bytes
    assert found.step > 0
    assert found.host.keys() == {"feed", "encode and submit"}


@pytest.mark.adapter
def test_the_time_of_a_kernel_is_the_median_of_its_runs(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_graph()
    plan = plan_graph(graph, device.limits, device.style)
    runs = iter([5.0, 1.0, 2.0, 9.0, 3.0])

    def times(*_: object) -> list[float]:
        run = next(runs)
        return [factor * run for factor in range(len(plan.order))]

    monkeypatch.setattr(WebGpuSession, "profile", times)
    found = profile_on(device, graph, plan)
    assert found.kernels == 3 * sum(range(len(plan.order)))


@pytest.mark.adapter
def test_every_iteration_of_a_loop_is_in_a_row(device: Device) -> None:
    graph = forward(COUNTING.format(place="t", condition="t < 3"), n=2, s=5)
    plan = plan_graph(graph, device.limits, device.style)
    assert len(plan.order) > len(plan.dispatches)
    found = profile_on(device, graph, plan)
    assert sum(row.calls for row in found.rows) == len(plan.order)


@pytest.mark.adapter
def test_an_adapter_without_a_clock_is_told_so(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_clock", False)
    graph = small_graph()
    with pytest.raises(ProblemError, match="E0590"):
        profile_on(device, graph, plan_graph(graph, device.limits, device.style))


def test_the_ops_of_the_reference_device_are_all_there() -> None:
    found = profile_of(small_graph())
    assert {row.name: row.calls for row in found.rows} == {"matmul 6x6x6": 2, "add 6x6": 1}
    assert sum(row.flops for row in found.rows) == 2 * 2 * 6**3 + 36
    assert found.memory["parameters"] == found.memory["inputs"] == 144
    assert found.memory["temporaries"] >= 2 * 144


def test_all_results_of_an_op_are_traffic() -> None:
    build = Builder()
    pool = MaxPool((2, 2), (2, 2), (0, 0))
    largest, indices = build.add_all(pool, build.add(Input("x", DType.F32, (1, 3, 8, 8))))
    read, written = 4 * 3 * 64, 4 * 3 * 16
    for outputs, results in (({"y": largest}, 1), ({"y": largest, "at": indices}, 2)):
        (row,) = profile_of(build.graph(outputs)).rows
        assert (row.calls, row.bytes) == (1, read + results * written)


def test_alike_pieces_are_one_row_and_the_dearest_comes_first() -> None:
    def piece(group: str, location: str, seconds: float) -> Piece:
        return Piece(f"name {group}", group[0], location, group, seconds, 10, 20)

    rows = rows_of([piece("aa", "1", 1.0), piece("b", "2", 5.0), piece("aa", "3", 2.0)])
    assert [(row.name, row.calls, row.seconds) for row in rows] == [
        ("name b", 1, 5.0),
        ("name aa", 2, 3.0),
    ]
    assert rows[1].locations == ("1", "3")
    peaks = Peaks(flops=5.0, bandwidth=40.0, how="")
    found = Profile("", peaks, rows, 0, {}, {}, None)
    assert found.roofline(rows[1]) == pytest.approx((20 / 5) / 3)
    assert found.roofline(replace(rows[1], flops=0)) == pytest.approx((40 / 40) / 3)
    assert found.kernels == 8


@pytest.mark.adapter
def test_the_peaks_of_an_adapter_are_measured_on_it(device: Device) -> None:
    found = peaks_of(device)
    assert found.flops > 1e6
    assert found.bandwidth > 1e6
    assert peaks_of_numpy().flops > 1e6


def test_examples_fit_their_leaves_and_stay_where_they_make_sense() -> None:
    build = Builder()
    table = build.add(Parameter("table", DType.F32, (7, 4), "param"))
    ids = build.add(Input("ids", DType.I32, (50,)))
    rate = build.add(Input(LEARNING_RATE, DType.F32, ()))
    graph = build.graph({"y": build.add(Gather(0), table, ids), "z": build.add(Sub(), rate, rate)})
    found, again = example_of(graph), example_of(graph)
    assert found.persistent.keys() == {"table"}
    assert found.persistent["table"].min() >= np.float32(0.01)
    assert set(found.feeds["ids"]) <= set(range(7))
    assert found.feeds["ids"].dtype == np.int32
    assert found.feeds[LEARNING_RATE] == 0
    np.testing.assert_array_equal(found.persistent["table"], again.persistent["table"])
