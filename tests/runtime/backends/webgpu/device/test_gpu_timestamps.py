"""Single kernels timed by the adapter, and modules without checks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Add, Input, MatMul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device, Range, open_device
from meganeura_runtime.backends.webgpu.device.gpu_timestamps import MOST_QUERIES, GpuTimestamps
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession

DOUBLE = """\
@group(0) @binding(0) var<storage, read_write> b0: array<u32>;

@compute @workgroup_size(4)
fn main(@builtin(local_invocation_index) lane: u32) {
    b0[lane] *= 2u;
}
"""


@pytest.mark.parametrize("passes", [1, 2048, 2050])
def test_each_pass_has_two_places_and_its_times_in_seconds(passes: int) -> None:
    """In sets of as many places as there may be; times are read from where each set wrote them."""
    ticks = np.arange(2 * passes, dtype=np.uint64).reshape(-1, 2) * np.uint64(3)
    ticks[0] = 9, 5  # a clock may go backwards
    memory = np.zeros(2 * passes, np.uint64)

    class Fake:
        queue = SimpleNamespace(read_buffer=lambda *_: memory.tobytes())

        def create_query_set(self, type: str, count: int) -> list[int]:  # noqa: A002
            assert type == "timestamp"
            assert count <= MOST_QUERIES
            return [0] * count

        def create_buffer(self, size: int, usage: int) -> SimpleNamespace:
            assert (size, usage) == (memory.nbytes, 7)
            return SimpleNamespace(destroy=lambda: None)

        def resolve_query_set(
            self, queries: list[int], first: int, count: int, _to: object, at: int
        ) -> None:
            memory[at // 8 : at // 8 + count] = queries[first : first + count]

    fake = cast("Any", Fake())
    stamps = GpuTimestamps(fake, passes, 7, 0.5)
    for number, times in enumerate(ticks.tolist()):
        where = stamps.around(number)
        queries = cast("list[int]", where["query_set"])
        for key, time in zip(("beginning", "end"), times, strict=True):
            queries[cast("int", where[f"{key}_of_pass_write_index"])] = time
    stamps.resolve(fake)
    assert stamps.read() == [(4.5, 4.5), *((3 * n, 3 * n + 1.5) for n in range(1, passes))]


def test_a_kernel_takes_from_when_it_began_to_when_it_ended() -> None:
    device = SimpleNamespace(stamped=lambda *_: [(2.0, 5.0), (7.0, 7.5)])
    assert Device.timed(cast("Device", device), []) == [3.0, 0.5]


@pytest.mark.adapter
def test_each_dispatch_has_a_time_and_is_run_so_often(device: Device) -> None:
    build = Builder()
    x, w = build.add(Input("x", DType.F32, (20, 20))), Parameter("w", DType.F32, (20, 20), "param")
    weights = build.add(w)
    product = build.add(MatMul(), x, weights)
    grown = build.add(Add(), weights, x)
    graph = build.graph({"y": product}, {"w": grown})
    ones = np.ones((20, 20), np.float32)
    with WebGpuSession(plan_graph(graph, device.limits, Style.GPU), device) as session:
        session.write("w", ones)
        session.step({"x": ones})
        times = session.profile(before=2)
        assert len(times) == len(session.plan.dispatches)
        assert min(times) >= 0
        np.testing.assert_array_equal(session.read("w"), 5 * ones)


@pytest.mark.adapter
def test_an_unchecked_module_computes_and_says_what_is_wrong() -> None:
    device = open_device("wgpu", checked=False)
    at = Range(device.allocate(16), 0, 16)
    device.write(at, np.arange(4, dtype=np.uint32).view(np.uint8))
    device.submit([device.launch(DOUBLE, [at], (1, 1, 1))])
    assert device.read(at).view(np.uint32).tolist() == [0, 2, 4, 6]
    with pytest.raises(DeviceError, match="compiling a kernel failed"):
        device.launch("fn main( {", [at], (1, 1, 1))
    device.close()


@pytest.mark.adapter
@pytest.mark.parametrize("passes", [0, 1, 2050])
def test_passes_have_times_in_order_however_many_there_are(device: Device, passes: int) -> None:
    at = Range(device.allocate(16), 0, 16)
    device.write(at, np.ones(4, np.uint32).view(np.uint8))
    launch = device.launch(DOUBLE, [at], (1, 1, 1))
    times = device.timed([launch] * passes)
    assert len(times) == passes
    assert all(time >= 0 for time in times)
    expected = [0 if passes > 31 else 1 << passes] * 4
    assert device.read(at).view(np.uint32).tolist() == expected
    device.free(at.buffer)
