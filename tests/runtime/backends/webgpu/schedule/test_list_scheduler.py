"""The order of kernels: what gives memory free does not wait."""

import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import Input, MatMul, Parameter, Sub, Sum, Tanh
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Work
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel
from meganeura_runtime.backends.webgpu.schedule.list_scheduler import list_schedule

WIDTH = 64


def backward(depth: int, *, updates_last: bool) -> Graph:
    """Slopes that go back through layers, and the update of each layer's weight.

    The updates are made beside the slopes they are computed from, or after everything else.
    """
    build = Builder()
    slope = build.add(Input("slope", DType.F32, (WIDTH, WIDTH)))
    weights = [
        build.add(Parameter(f"w{n}", DType.F32, (WIDTH, WIDTH), "param")) for n in range(depth)
    ]
    slopes: list[Value] = []
    updates: dict[str, Value] = {}

    def update(number: int) -> None:
        gradient = build.add(MatMul(transpose_left=True), slopes[number], slopes[number])
        updates[f"w{number}"] = build.add(Sub(), weights[number], gradient)

    for number, weight in enumerate(weights):
        slope = build.add(Tanh(), build.add(MatMul(), slope, weight))
        slopes.append(slope)
        if not updates_last:
            update(number)
    if updates_last:
        for number in range(depth):
            update(number)
    return build.graph({"total": build.add(Sum((0, 1)), slope)}, updates)


@pytest.mark.parametrize("depth", [2, 20])
def test_updates_come_as_soon_as_what_they_need_is_there(depth: int) -> None:
    """Then two slopes are alive at one time, however many layers there are."""
    for updates_last in (False, True):
        plan = plan_graph(backward(depth, updates_last=updates_last), DeviceLimits())
        assert plan.bytes_for(Role.TEMPORARIES) == 2 * WIDTH * WIDTH * 4
        assert not plan.copies


def test_kernels_that_wait_for_each_other_are_refused() -> None:
    build = Builder()
    one = build.add(Tanh(), build.add(Input("x", DType.F32, (3,))))
    other = build.add(Tanh(), one)
    kernels = [
        FusedKernel(Work((), (value,)), frozenset({read.id}), frozenset())
        for value, read in ((one, other), (other, one))
    ]
    with pytest.raises(ValueError, match="depend on each other in a circle"):
        list_schedule(build.graph({"y": other}), kernels)


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_a_parameter_is_not_overwritten_before_it_is_read(depth: int) -> None:
    """Its last reader depends on its new value, at once or through others."""
    build = Builder()
    weight = build.add(Parameter("w", DType.F32, (3,), "param"))
    new = build.add(Tanh(), build.add(Input("x", DType.F32, (3,))))
    chain = [new]
    for _ in range(depth):
        chain.append(build.add(Tanh(), chain[-1]))
    last = build.add(Sub(), chain[-1], weight)
    graph = build.graph({"y": last}, {"w": new})
    kernels = [
        FusedKernel(Work((), (value,)), frozenset(each.id for each in value.operands), frozenset())
        for value in (*chain, last)
    ]
    schedule = list_schedule(graph, kernels)
    assert not schedule.in_place
    assert list(schedule.kernels) == kernels


def test_a_parameter_is_overwritten_when_all_have_read_it() -> None:
    build = Builder()
    weight = build.add(Parameter("w", DType.F32, (3,), "param"))
    new = build.add(Tanh(), build.add(Input("x", DType.F32, (3,))))
    reader = build.add(Tanh(), weight)
    graph = build.graph({"y": reader}, {"w": new})
    kernels = [
        FusedKernel(Work((), (value,)), frozenset(each.id for each in value.operands), frozenset())
        for value in (new, reader)
    ]
    schedule = list_schedule(graph, kernels)
    assert schedule.in_place == {new.id: weight.id}
    assert list(schedule.kernels) == kernels[::-1]


@pytest.mark.usefixtures("apart")
def test_what_gives_no_memory_free_waits_for_its_turn() -> None:
    """A kernel that reads a tensor last and makes one as large does not go before others."""
    build = Builder()
    x, narrow, wide = (
        build.add(Input(name, DType.F32, (WIDTH, columns)))
        for name, columns in (("x", WIDTH), ("narrow", 8), ("wide", 16))
    )
    read_twice = build.add(MatMul(), x, x)
    first = build.add(MatMul(), read_twice, narrow)
    other = build.add(MatMul(), x, wide)
    as_large = build.add(MatMul(), read_twice, x)
    outputs = {"first": first, "other": other, "last": build.add(MatMul(), as_large, wide)}
    plan = plan_graph(build.graph(outputs), DeviceLimits())
    columns = [one.name.split()[-1].split("x")[1] for one in plan.dispatches]
    assert columns == ["64", "8", "16", "64", "16"]
