"""Updates: in place where that is safe, and always from the values before the step."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Constant,
    DynamicUpdate,
    Input,
    MatMul,
    Mul,
    Parameter,
    Reverse,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.runtime.running import assert_as_reference

pytestmark = pytest.mark.adapter


def parameter(build: Builder, name: str, *shape: int) -> Value:
    return build.add(Parameter(name, DType.F32, shape, "state"))


def check(graph: Graph, device: Device, copies: int) -> None:
    assert len(plan_graph(graph, DeviceLimits()).copies) == copies
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input | Parameter)
    }
    assert_as_reference(graph, feeds, device)


def test_two_parameters_swapped(device: Device) -> None:
    build = Builder()
    a, b = parameter(build, "a", 5000), parameter(build, "b", 5000)
    check(build.graph({}, {"a": b, "b": a}), device, copies=1)


def test_two_parameters_swapped_by_one_kernel(device: Device) -> None:
    build = Builder()
    a, b = parameter(build, "a", 5), parameter(build, "b", 5)
    check(build.graph({}, {"a": b, "b": a}), device, copies=0)


def test_three_parameters_rotated(device: Device) -> None:
    build = Builder()
    a, b, c = (parameter(build, name, 100, 50) for name in "abc")
    check(build.graph({"old": a}, {"a": b, "b": c, "c": a}), device, copies=1)


def test_an_output_of_the_old_value(device: Device) -> None:
    build = Builder()
    a = parameter(build, "a", 5)
    updated = build.add(Add(), a, full(build, a.type, 1))
    check(build.graph({"before": a, "after": updated}, {"a": updated}), device, copies=0)


def test_one_value_for_two_parameters(device: Device) -> None:
    build = Builder()
    a, x = parameter(build, "a", 5), build.add(Input("x", DType.F32, (5,)))
    parameter(build, "b", 5)
    new = build.add(Mul(), a, x)
    check(build.graph({"y": new}, {"a": new, "b": new}), device, copies=0)


def test_an_input_kept_for_the_next_step(device: Device) -> None:
    build = Builder()
    a, x = parameter(build, "a", 5), build.add(Input("x", DType.F32, (5,)))
    check(build.graph({"last": a}, {"a": x}), device, copies=0)


def test_a_parameter_updated_from_its_other_elements(device: Device) -> None:
    build = Builder()
    a = parameter(build, "a", 500)
    check(build.graph({}, {"a": build.add(Reverse((0,)), a)}), device, copies=1)
    b = parameter(build, "b", 20, 20)
    check(build.graph({}, {"b": build.add(MatMul(), b, b)}), device, copies=1)


def part_of(build: Builder, cache: Value, x: Value, at: tuple[Value, Value]) -> Value:
    return build.add(DynamicUpdate(), cache, x, *at)


def test_a_part_of_another_parameter_is_not_replaced_in_place(device: Device) -> None:
    build = Builder()
    a, b = parameter(build, "a", 16, 8), parameter(build, "b", 16, 8)
    x, zero = build.add(Input("x", DType.F32, (1, 8))), build.add(Constant(0, DType.I32))
    three = build.add(Constant(3, DType.I32))
    updates = {name: part_of(build, of, x, (three, zero)) for name, of in {"a": b, "b": a}.items()}
    check(build.graph({}, updates), device, copies=0)
    one = build.graph({"y": build.add(Add(), b, b)}, {"a": part_of(build, b, x, (three, zero))})
    plan = plan_graph(one, DeviceLimits(), Style.SOFTWARE_VULKAN)
    assert len(plan.dispatches) == 1, "it is as any other value"
    check(one, device, copies=0)


@pytest.mark.parametrize(
    ("shape", "place", "rows", "kernels"),
    [((16, 8), 3, 1, 1), ((16, 8), 4, 1, 2), ((8, 16), 3, 1, 2), ((16, 8), 3, 2, 2)],
    ids=["same", "another place", "another shape", "a larger part"],
)
def test_parts_of_one_shape_and_place_are_replaced_together(
    shape: tuple[int, int], place: int, rows: int, kernels: int, device: Device
) -> None:
    build = Builder()
    caches = parameter(build, "a", 16, 8), parameter(build, "b", *shape)
    zero, first, second = (build.add(Constant(n, DType.I32)) for n in (0, 3, place))
    x, y = (build.add(Input(n, DType.F32, (size, 8))) for n, size in (("x", 1), ("y", rows)))
    updates = {
        "a": part_of(build, caches[0], x, (first, zero)),
        "b": part_of(build, caches[1], y, (second, zero)),
    }
    graph = build.graph({}, updates)
    assert len(plan_graph(graph, DeviceLimits(), Style.SOFTWARE_VULKAN).dispatches) == kernels
    check(graph, device, copies=0)


def test_a_part_that_is_not_replaced_where_it_lies_is_written_with_all_around_it(
    device: Device,
) -> None:
    """The second cache is read as it was by what reads the new first one."""
    build = Builder()
    caches = [parameter(build, name, 8, 8) for name in "ab"]
    x, y = (build.add(Input(name, DType.F32, (1, 8))) for name in "xy")
    three, zero = (build.add(Constant(number, DType.I32)) for number in (3, 0))
    new = [part_of(build, *each, (three, zero)) for each in zip(caches, (x, y), strict=True)]
    late = build.add(MatMul(), new[0], caches[1])
    check(build.graph({"y": late}, dict(zip("ab", new, strict=True))), device, copies=1)


def test_readers_come_before_the_update(device: Device) -> None:
    build = Builder()
    w, x = parameter(build, "w", 6, 6), build.add(Input("x", DType.F32, (6, 6)))
    gradient = build.add(MatMul(transpose_left=True), x, x)
    late = build.add(MatMul(), build.add(MatMul(), x, w), w)
    graph = build.graph({"y": late}, {"w": build.add(Sub(), w, gradient)})
    check(graph, device, copies=0)


def test_an_update_that_must_wait_for_a_reader_of_itself(device: Device) -> None:
    build = Builder()
    w, v = parameter(build, "w", 4, 4), parameter(build, "v", 4, 4)
    new_w = build.add(Add(), w, build.add(MatMul(), v, v))
    new_v = build.add(Add(), v, build.add(MatMul(), w, w))
    check(build.graph({}, {"w": new_w, "v": new_v}), device, copies=1)


def test_what_is_not_updated_keeps_its_value(device: Device) -> None:
    build = Builder()
    a, b = parameter(build, "a", 3), parameter(build, "b", 3)
    total = build.add(Sum((0,)), build.add(Mul(), a, b))
    check(build.graph({"y": total}, {"a": build.add(Add(), a, b)}), device, copies=0)


@pytest.mark.parametrize("style", Style)
def test_a_number_that_is_replaced_is_not_computed(device: Device, style: Style) -> None:
    """An update without axes replaces all there is: its kernel is bound to nothing else."""
    build = Builder()
    x, y = (build.add(Sum((0,)), build.add(Input(name, DType.F32, (4,)))) for name in "xy")
    graph = build.graph({"new": build.add(DynamicUpdate(), build.add(Mul(), x, x), y)})
    feeds = {name: np.arange(4, dtype=np.float32) for name in "xy"}
    assert_as_reference(graph, feeds, device, style)
