"""A kernel that equal layers share is the one that would be generated for each of them."""

import gc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Conv,
    Exp,
    Input,
    MatMul,
    Parameter,
    Slice,
    Sort,
    Sub,
    Sum,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule import compile as schedule
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.schedule.kernel_cache import KernelCache, Write
from tests.effort import effort
from tests.runtime.backends.webgpu.schedule.graphs import Example, examples


class Anew:
    """Writes every kernel anew."""

    def __init__(self, write: Write) -> None:
        self.write = write

    def kernel(self, work: Work, computed: Sequence[Value], memory: Memory) -> Kernel:
        del computed
        return self.write(work, memory)


class Counting(KernelCache):
    """Counts what is written."""

    count = 0

    def __init__(self, write: Write) -> None:
        def counted(work: Work, memory: Memory) -> Kernel:
            Counting.count += 1
            return write(work, memory)

        super().__init__(counted)


@given(example=examples())
@settings(max_examples=effort(15, 1000), deadline=None)
def test_plans_are_the_same_as_without(example: Example) -> None:
    for style in Style:
        plan = plan_graph(example.graph, DeviceLimits(), style)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedule, "KernelCache", Anew)
            assert plan_graph(example.graph, DeviceLimits(), style) == plan


def tower(depth: int, *, widths: Sequence[int] = (8,)) -> Plan:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, widths[0], 6, 6)))
    for number in range(depth):
        ins, outs = widths[number % len(widths)], widths[(number + 1) % len(widths)]
        w = build.add(Parameter(f"w{number}", DType.F32, (outs, ins, 3, 3), "param"))
        b = build.add(Parameter(f"b{number}", DType.F32, (outs,), "param"))
        x = build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, w)
        x = build.add(Exp(), build.add(Add(), x, build.add(Broadcast(x.type.shape, (1,)), b)))
    return plan_graph(build.graph({"y": build.add(Sum((0, 1, 2, 3)), x)}), DeviceLimits())


def test_a_deep_network_takes_no_more_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "KernelCache", Counting)
    counts: list[int] = []
    for depth in (4, 40):
        Counting.count = 0
        assert len(tower(depth).dispatches) == depth + 1
        counts.append(Counting.count)
    assert counts[0] == counts[1]


def test_layers_of_other_widths_have_kernels_of_their_own() -> None:
    assert len(tower(8, widths=(8, 12)).kernels) == len(tower(8).kernels) + 1


@pytest.mark.usefixtures("apart")
def test_parts_of_tensors_of_another_shape_have_kernels_of_their_own() -> None:
    """Equal ops that give equal types step through memory otherwise; the bytes are the same."""
    build = Builder()
    part = Slice((1, 1), (51, 5), (1, 1))
    sums = {
        name: build.add(Sum((1,)), build.add(part, build.add(Input(name, DType.F32, shape))))
        for name, shape in (("a", (70, 6)), ("b", (60, 7)), ("c", (70, 6)))
    }
    plan = plan_graph(build.graph(sums), DeviceLimits())
    assert [dispatch.kernel for dispatch in plan.dispatches] == [0, 1, 0]


@pytest.mark.parametrize("style", Style)
def test_two_results_of_one_op_have_kernels_of_their_own(
    style: Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two whole numbers in order, and where two others stood, are of one type and one iteration."""
    build = Builder()
    x, y = (build.add(Input(name, DType.I32, (2,))) for name in "xy")
    ordered, places = (build.add_all(Sort(0), each)[at] for at, each in enumerate((x, y)))
    graph = build.graph({"ordered": ordered, "places": places})
    plan = plan_graph(graph, DeviceLimits(), style)
    monkeypatch.setattr(schedule, "KernelCache", Anew)
    assert plan_graph(graph, DeviceLimits(), style) == plan


def chain() -> Graph:
    """Equal products of an input, and of what lies in the buffer that they write."""
    build = Builder()
    x, w = (build.add(Input(name, DType.F32, (5, 5))) for name in "xw")
    for _ in range(4):
        x = build.add(MatMul(), x, w)
    return build.graph({"y": x})


def overwritten() -> Graph:
    """Equal differences, of which one takes the place of what it is of, one that of the other."""
    build = Builder()
    p, q, r, s = (build.add(Parameter(name, DType.F32, (64, 80), "state")) for name in "pqrs")
    return build.graph({}, {"p": build.add(Sub(), p, q), "s": build.add(Sub(), r, s)})


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("graph", [chain(), overwritten()], ids=["chain", "overwritten"])
def test_where_tensors_lie_beside_each_other_is_part_of_a_kernel(
    graph: Graph, style: Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer that a dispatch writes is bound so wherever it is read."""
    plan = plan_graph(graph, DeviceLimits(), style)
    monkeypatch.setattr(schedule, "KernelCache", Anew)
    assert plan_graph(graph, DeviceLimits(), style) == plan


@pytest.mark.usefixtures("own_garbage")
def test_a_plan_leaves_nothing_that_only_the_garbage_collector_finds() -> None:
    """The graph of a large network would stay in memory until it is looked for."""
    graph = chain()
    plan_graph(graph, DeviceLimits())
    gc.collect()
    gc.disable()
    try:
        plan_graph(graph, DeviceLimits())
        assert gc.collect() == 0
    finally:
        gc.enable()
