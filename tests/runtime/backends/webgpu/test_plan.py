"""Plans as data: text, files, and what they say of a graph."""

from dataclasses import replace
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Builder, Graph, Origin
from meganeura_dsl.ir.ops import Add, Input, MatMul, Neg, Parameter, Sum
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.plan import DispatchLoop, Plan, PlanError, Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

SOURCE = Source("net.mgn", "model net:\n    y = x @ w\n    loss = sum(y)\n")


def line(number: int, path: str = "") -> Origin:
    start = SOURCE.text.index(SOURCE.line(number))
    return Origin(Span(SOURCE, start, start + 1), path)


def small_graph(rows: int = 3) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (rows, 5)))
    w = build.add(Parameter("head.w", DType.F32, (5, 2), "param"))
    with build.at(line(2, "head")):
        y = build.add(MatMul(), x, w)
    with build.at(line(3)):
        loss = build.add(Sum((0, 1)), y)
    return build.graph({"loss": loss}, {"head.w": build.add(Add(), w, w)})


@pytest.mark.usefixtures("apart")
def test_a_plan_prints_its_steps_with_their_places() -> None:
    text = str(plan_graph(small_graph(), DeviceLimits()))
    lines = text.splitlines()
    assert lines[0] == "3 dispatches of 3 kernels, 0 copies, style gpu"
    assert "temporaries at least" in lines[1]
    assert "matmul 3x2x5" in lines[2]
    assert lines[2].endswith("net.mgn:2 head")
    assert lines[3].endswith("net.mgn:3")


def test_a_plan_prints_what_is_in_a_loop_farther_right() -> None:
    plan = plan_graph(small_graph(), DeviceLimits())
    several = tuple(replace(plan.dispatches[0], name=each) for each in "abcdef")
    loops = (DispatchLoop(1, 5, 7), DispatchLoop(2, 4, 3))
    lines = str(replace(plan, dispatches=several, loops=loops)).splitlines()
    begin = next(at for at, line in enumerate(lines) if " a " in line)
    shown = [line.partition(" kernel")[0].rstrip() for line in lines[begin : begin + 8]]
    assert shown == [
        "   0 a", "     7 iterations:", "   1   b", "     3 iterations:", "   2     c",
        "   3     d", "   4   e", "   5 f",
    ]  # fmt: skip


def test_a_plan_names_what_the_host_reads_and_writes() -> None:
    plan = plan_graph(small_graph(), DeviceLimits())
    assert [str(tensor) for tensor in plan.inputs] == ["x: f32[3, 5]"]
    assert [str(tensor) for tensor in plan.parameters] == ["head.w: f32[5, 2]"]
    assert [str(tensor) for tensor in plan.outputs] == ["loss: f32[]"]
    assert plan.bytes_for(Role.PARAMETERS) == 256


@pytest.mark.parametrize("style", Style)
def test_a_plan_survives_a_file(style: Style, tmp_path: Path) -> None:
    plan = plan_graph(small_graph(), DeviceLimits(), style)
    path = tmp_path / "plan.json"
    plan.save(path)
    assert Plan.load(path) == plan


def test_a_file_of_which_a_byte_is_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan_graph(small_graph(), DeviceLimits()).save(path)
    content = path.read_bytes()
    for old, new in ((b'"flops": ', b'"flops": 1'), (b"crc32 ", b"crc32 0")):
        assert old in content
        path.write_bytes(content.replace(old, new, 1))
        with pytest.raises(PlanError, match="it is damaged"):
            Plan.load(path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan_graph(small_graph(), DeviceLimits()).save(path)
    path.write_text(path.read_text().replace('"version": 4', '"version": 3'))
    with pytest.raises(PlanError, match="no plan of version 4"):
        Plan.load(path)
    path.write_text("{")
    with pytest.raises(PlanError, match="no plan"):
        Plan.load(path)


def test_planning_is_deterministic() -> None:
    plans = [plan_graph(small_graph(), DeviceLimits()) for _ in range(2)]
    assert plans[0] == plans[1]


def test_equal_kernels_are_written_once() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (8, 8)))
    for _ in range(5):
        x = build.add(MatMul(), x, x)
    plan = plan_graph(build.graph({"y": x}), DeviceLimits())
    assert len(plan.dispatches) == 5
    assert len(plan.kernels) < 5


def test_a_tensor_beyond_a_binding_is_refused_with_its_line() -> None:
    limits = replace(DeviceLimits(), binding_bytes=1 << 20)
    with pytest.raises(LimitError) as caught:
        plan_graph(small_graph(1 << 18), limits)
    assert caught.value.limit == "max-storage-buffer-binding-size"
    assert "`Input` gives f32[262144, 5]" in str(caught.value)
    assert "5242880 bytes" in str(caught.value)
    build = Builder()
    x = build.add(Input("x", DType.F32, (1024, 8)))
    with build.at(line(2, "head")):
        y = build.add(MatMul(transpose_right=True), x, x)
    with pytest.raises(LimitError, match=r"^net\.mgn:2 head: `MatMul` gives f32\[1024, 1024\]"):
        plan_graph(build.graph({"y": y}), replace(limits, binding_bytes=1 << 21))


def test_a_tensor_beyond_a_buffer_is_refused() -> None:
    limits = replace(DeviceLimits(), buffer_bytes=64)
    with pytest.raises(LimitError, match="max-buffer-size"):
        plan_graph(small_graph(100), limits)


def test_a_tensor_may_be_as_large_as_the_limits() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (64,)))
    graph = build.graph({"y": build.add(Neg(), x)})
    for limit in ("buffer_bytes", "binding_bytes"):
        plan_graph(graph, replace(DeviceLimits(), **{limit: 256}))
        with pytest.raises(LimitError):
            plan_graph(graph, replace(DeviceLimits(), **{limit: 255}))


def test_halves_need_an_adapter_that_has_them() -> None:
    build = Builder()
    with build.at(line(2)):
        x = build.add(Input("x", DType.F16, (3,)))
    with pytest.raises(LimitError, match=r"^net\.mgn:2: .*shader-f16"):
        plan_graph(build.graph({"y": x}), DeviceLimits())


def test_an_update_of_what_is_not_declared_is_refused() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    with pytest.raises(ValueError, match="`w`, which it does not declare"):
        plan_graph(build.graph({}, {"w": build.add(Add(), x, x)}), DeviceLimits())
