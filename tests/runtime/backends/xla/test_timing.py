"""Profiles and traces by JAX's profiler: instructions under the names of the program's ops."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Builder, Graph, Origin
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Tanh
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.xla.timing import device_events, profile
from meganeura_runtime.backends.xla.timing.device_events import DeviceEvent
from meganeura_runtime.backends.xla.timing.hlo_text import instructions
from meganeura_runtime.profiling.trace import ENOUGH, STEPS, Trace

TEXT = """\
HloModule jit_step, entry_computation_layout={(f32[2,3]{1,0})->f32[2]{0}}

%fused (param_0: f32[2,3], param_1: bf16[3]) -> f32[2] {
  %param_0 = f32[2,3]{1,0} parameter(0)
  %param_1 = bf16[3]{0} parameter(1)
  %tanh.1 = f32[2,3]{1,0} tanh(%param_0), metadata={op_name="jit(step)/a.b/net.mgn:7/%12/tanh"}
  ROOT %sum.1 = f32[2]{0} reduce(%tanh.1), metadata={op_name="jit(step)/net.mgn:8/%13/reduce_sum"}
}

ENTRY %main.4 (x.1: f32[2,3], w.1: bf16[3]) -> (f32[2], s8[]) {
  %x.1 = f32[2,3]{1,0} parameter(0), metadata={op_name="fed['x']"}
  %w.1 = bf16[3]{0} parameter(1)
  %fusion.1 = f32[2]{0} fusion(%x.1, %w.1), calls=%fused, metadata={op_name="jit(step)/%13/sum"}
  ROOT %call.2 = (f32[2]{0}, s8[8]{0}) custom-call(%fusion.1), custom_call_target="x"
}
"""


def test_the_text_of_a_program_says_what_an_instruction_moves_and_computes() -> None:
    found = instructions(TEXT)
    assert set(found) == {
        *("param_0", "param_1", "tanh.1", "sum.1", "x.1", "w.1", "fusion.1", "call.2")
    }
    fusion, call = found["fusion.1"], found["call.2"]
    assert (fusion.kind, fusion.bytes, fusion.sources) == ("fusion", 24 + 6 + 8, (12, 13))
    assert (call.kind, call.bytes, call.sources) == ("custom-call", 8 + 8 + 8, ())
    assert found["tanh.1"].sources == (12,)


@pytest.mark.parametrize(
    ("plane", "name", "instruction", "found"),
    [
        ("/host:CPU", "dot.1", "dot.1", "dot.1"),
        ("/host:CPU", "end: dot.1", "dot.1", ""),
        ("/host:CPU", "PjitFunction", None, ""),
        ("/device:GPU:0", "gemm_kernel", "dot.1", "dot.1"),
        ("/device:GPU:0", "end: dot.1", "dot.1", "dot.1"),
        ("/device:GPU:0", "MemcpyD2D", None, "MemcpyD2D"),
        ("/device:GPU:0", "gemm_kernel", 7, "7"),
    ],
)
def test_an_event_is_of_an_instruction_or_of_a_kernel_of_none(
    plane: str, name: str, instruction: object, found: str
) -> None:
    """Threads of a host tell the end of an instruction too."""
    stats = [("device_ordinal", 0), *([] if instruction is None else [("hlo_op", instruction)])]
    event = SimpleNamespace(name=name, stats=stats)
    assert device_events._instruction(cast("Any", event), plane) == found


def test_what_lies_within_another_event_is_none_of_its_own() -> None:
    spans = [(5, 6), (0, 4), (0, 2), (1, 4), (3, 5), (5, 5.5), (6, 8)]
    given = [DeviceEvent(f"{start}-{end}", start, end) for start, end in spans]
    found = [each.name for each in device_events._outermost(given)]
    assert found == ["0-4", "3-5", "5-6", "6-8"]


ROW = """\
%fused (param_0: f32[4], param_1: f32[1,4]) -> f32[1,4] {
  %param_0 = f32[4]{0} parameter(0)
  %bitcast.1 = f32[4]{0} bitcast(%param_1), metadata={op_name="jit(step)/net.mgn:5/%7/dot_general"}
  ROOT %add.1 = f32[1,4]{1,0} add(%b, %w), metadata={op_name="jit(step)/net.mgn:6/%9/add"}
}

ENTRY %main (x: f32[3,1], w: f32[4,3], bias: f32[4]) -> f32[1,4] {
  %dot.2 = f32[1,4]{1,0} dot(%x, %w), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT %fusion.3 = f32[1,4]{1,0} fusion(%bias, %dot.2), calls=%fused, \
metadata={op_name="jit(step)/net.mgn:6/%9/add"}
}
"""
"""XLA's form of a product of one row: its name is that of a bitcast of the result."""


def test_a_product_of_one_row_has_its_name() -> None:
    found = instructions(ROW)
    assert found["dot.2"].sources == (7,)
    assert found["fusion.3"].sources == (9,)


def test_the_fastest_run_counts_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves only while the device is waited for."""
    took = iter([5.0, 3.0, 0.5, 2.0, 0.75, 4.0, 1.0])
    now, given = 100.0, list[list[float]]()

    def wait(x: jax.Array) -> None:
        nonlocal now
        given.append(np.asarray(x).tolist())
        now += next(took)

    monkeypatch.setattr(profile, "perf_counter", lambda: now)
    monkeypatch.setattr(jax, "block_until_ready", wait)
    assert profile._fastest(lax.neg, jnp.array([1.0, 2.0])) == 0.5
    assert given == [[-1, -2]] * profile.PEAK_RUNS


def products() -> Graph:
    """tanh(x w) w, its second product on a line of a file."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (32, 64)))
    w = build.add(Parameter("w", DType.F32, (64, 64), "param"))
    y = build.add(Tanh(), build.add(MatMul(), x, w))
    with build.at(Origin(Span(Source("net.mgn", "y @ w\n"), 0, 5), "layer")):
        y = build.add(MatMul(), y, w)
    return build.graph({"y": y})


@pytest.fixture(scope="module")
def graph() -> Graph:
    return products()


def test_a_profile_has_the_ops_of_the_program_and_their_arithmetic(graph: Graph) -> None:
    found = choose_device("xla:cpu").profile(graph)
    assert found is not None
    rows = [row for row in found.rows if row.kind == "matmul"]
    assert sum(row.flops for row in rows) in range(
        2 * 2 * 32 * 64 * 64, 2 * 2 * 32 * 64 * 64 + 4097
    )
    assert any("net.mgn:1 layer" in row.locations for row in rows)
    assert all(row.seconds > 0 and row.bytes > 0 for row in rows)
    assert found.memory["parameters"] == 4 * 64 * 64
    assert found.peaks.flops > 0
    assert "matrices in f32" in found.peaks.how


def test_a_trace_shows_the_instructions_of_each_traced_step(graph: Graph) -> None:
    device = choose_device("xla:cpu")
    trace, example = Trace(device), example_of(graph)
    with trace.opening(device.open)(graph) as session:
        session.load(example.persistent)
        for _ in range(ENOUGH):
            session.step(example.feeds)
    shown = [moment.name for moment in trace.finish().kernels]
    assert sum(name.startswith("step ") for name in shown) == STEPS
    assert sum(name.endswith("[net.mgn:1]") for name in shown) >= STEPS
    moments = trace.timeline.kernels
    assert all(moment.start < moment.end for moment in moments)
    assert all(trace.timeline.since < moment.start for moment in moments)
    first = [at for at, moment in enumerate(moments) if moment.name.startswith("step ")]
    for at, end in pairwise([*first, len(moments)]):
        inside = moments[at + 1 : end]
        assert len(inside) > 1
        assert moments[at].start == min(moment.start for moment in inside)
        assert moments[at].end == max(moment.end for moment in inside)
