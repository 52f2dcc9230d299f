"""Kernels side by side in one launch: what may be, what may not, and that results stay."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.ir.cost_model import GPU
from meganeura_dsl.ir.graph import Array, Builder, Graph, Value
from meganeura_dsl.ir.ops import Add, Exp, Input, MatMul, Mul, Parameter, Sum, Tanh
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import SIDE_BY_SIDE, plan_graph
from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from tests.runtime.running import assert_as_reference

LARGE = DeviceLimits(storage_buffers=32, binding_bytes=1 << 28)


class Net:
    """A graph being built."""

    def __init__(self) -> None:
        self.build = Builder()

    def input(self, name: str, *shape: int) -> Value:
        return self.build.add(Input(name, DType.F32, shape))

    def weight(self, name: str, *shape: int) -> Value:
        return self.build.add(Parameter(name, DType.F32, shape, "param"))

    def projection(self, x: Value, name: str, outputs: int) -> Value:
        (_, terms) = concrete_shape(x.type.shape)
        weight = self.weight(name, outputs, terms)
        return self.build.add(MatMul(transpose_right=True), x, weight)


def planned(graph: Graph, limits: DeviceLimits = LARGE) -> Plan:
    plan = plan_graph(graph, limits, Style.GPU)
    verify_plan(plan, limits)
    return plan


def names(plan: Plan) -> list[list[str]]:
    return [dispatch.name.split(SIDE_BY_SIDE) for dispatch in plan.dispatches]


@pytest.mark.parametrize(("buffers", "launches"), [(4, 2), (5, 1), (6, 1)])
def test_kernels_side_by_side_are_bound_to_what_an_adapter_binds(
    buffers: int, launches: int
) -> None:
    """Two products of one tensor: what they read and write is five tensors."""
    net = Net()
    x = net.input("x", 1, 8)
    a, b = net.projection(x, "a", 6), net.projection(x, "b", 7)
    graph = net.build.graph({"a": a, "b": b})
    plan = planned(graph, replace(LARGE, storage_buffers=buffers))
    assert len(plan.dispatches) == launches


def check(graph: Graph, device: Device) -> None:
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input | Parameter)
    }
    assert_as_reference(graph, feeds, device, Style.GPU, LARGE)


@pytest.mark.adapter
def test_projections_of_unlike_widths_are_one_dispatch(device: Device) -> None:
    net = Net()
    x = net.input("x", 1, 48)
    outputs = {name: net.projection(x, name, size) for name, size in (("q", 70), ("k", 33))}
    graph = net.build.graph(outputs)
    assert names(planned(graph)) == [["sum 70x48", "sum 33x48"]]
    check(graph, device)


@pytest.mark.adapter
def test_what_depends_on_another_comes_later(device: Device) -> None:
    net = Net()
    x = net.input("x", 1, 48)
    q = net.projection(x, "q", 70)
    below = net.projection(net.build.add(Tanh(), q), "below", 33)
    beside = net.projection(x, "beside", 40)
    graph = net.build.graph({"below": below, "beside": beside})
    assert names(planned(graph)) == [["sum 70x48", "sum 40x48"], ["sum 33x70"]]
    check(graph, device)


@pytest.mark.adapter
def test_a_parameter_is_overwritten_behind_its_readers(device: Device) -> None:
    net = Net()
    x, w = net.input("x", 1, 48), net.weight("w", 40, 48)
    read = net.build.add(MatMul(transpose_right=True), x, w)
    moved = net.build.add(Add(), w, net.build.add(Exp(), net.input("step", 40, 48)))
    graph = net.build.graph({"y": read}, {"w": moved})
    plan = planned(graph)
    assert [len(each) for each in names(plan)] == [1, 1]
    assert plan.copies == ()
    check(graph, device)


@pytest.mark.adapter
def test_workgroups_of_several_sizes_are_dispatches_of_one_launch(device: Device) -> None:
    net = Net()
    x = net.input("x", 8, 600)
    product = net.build.add(Mul(), x, x)
    graph = net.build.graph(
        {
            "rows": net.build.add(Sum((1,)), product),
            "all": net.build.add(Sum((0, 1)), net.input("y", 40, 3)),
            "map": net.build.add(Exp(), net.input("z", 9)),
            "other": net.build.add(Tanh(), net.input("u", 5000)),
        }
    )
    assert len(planned(graph).dispatches) < 4
    check(graph, device)


def test_a_launch_is_bound_to_no_more_than_an_adapter_allows() -> None:
    net = Net()
    x = net.input("x", 1, 48)
    sizes = (33, 40, 50, 60, 70)
    graph = net.build.graph({f"y{size}": net.projection(x, f"w{size}", size) for size in sizes})
    assert [len(each) for each in names(planned(graph))] == [5]
    few = planned(graph, DeviceLimits(storage_buffers=8))
    assert [len(each) for each in names(few)] == [3, 2]


def test_workgroups_in_several_rows_are_a_dispatch_of_their_own() -> None:
    """A workgroup finds by its number along x alone whose work it does."""
    net = Net()
    many = net.build.add(Tanh(), net.input("x", 600))
    graph = net.build.graph({"many": many, "few": net.build.add(Exp(), net.input("z", 9))})
    plan = planned(graph, replace(LARGE, workgroups=8))
    assert [dispatch.workgroups for dispatch in plan.dispatches] == [(5, 2, 1), (1, 1, 1)]
    assert len(planned(graph).dispatches) == 1


def test_large_kernels_and_software_adapters_launch_each_for_itself() -> None:
    net = Net()
    x = net.input("x", 1, 1024)
    graph = net.build.graph({f"y{size}": net.projection(x, f"w{size}", size) for size in (4096, 3)})
    assert [len(each) for each in names(planned(graph))] == [1, 1]
    small = Net()
    y = small.input("x", 1, 48)
    both = small.build.graph({f"y{size}": small.projection(y, f"w{size}", size) for size in (9, 3)})
    software = plan_graph(both, LARGE, Style.SOFTWARE_VULKAN)
    assert not any(SIDE_BY_SIDE in dispatch.name for dispatch in software.dispatches)


def decoding(name: str, capacity: int, layers: int, tokens: int = 1) -> Graph:
    """The step that draws the token behind `tokens`, as a generator plans it for a GPU."""
    step = TokenStep(capacity, tokens)
    made = pipeline.elaborate_tokens(pipeline.load(name), name, {"layers": layers}, step)
    return RewriteOptions(device=GPU).optimize(made.elaboration.graph, "train").graph


def test_a_layer_decodes_in_ten_dispatches() -> None:
    counts = [len(planned(decoding("smollm2_135m", 1024, layers)).dispatches) for layers in (1, 2)]
    # The last norm, the logits and their maximum; and the token that is looked up costs nothing.
    assert counts == [10 + 3, 20 + 3]


def test_a_prompt_has_logits_of_its_last_token_alone() -> None:
    graph = decoding("smollm2_135m", 1024, 1, tokens=64)
    shapes = [value.type.shape for value in graph.values if isinstance(value.op, MatMul)]
    assert [shape for shape in shapes if 49152 in shape] == [(1, 1, 49152)]


@pytest.mark.adapter
@pytest.mark.parametrize("tokens", [1, 8])
def test_a_step_of_decoding_is_the_references(tokens: int, device: Device) -> None:
    graph = decoding("lm_tiny", 64, 2, tokens)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        "ids": generator.integers(0, 256, (1, tokens)).astype(np.int32),
        "position": np.asarray(20, np.int32),
    }
    for value in graph.values:
        if isinstance(value.op, Parameter):
            shape = concrete_shape(value.op.shape)
            feeds[value.op.name] = 0.2 * generator.standard_normal(shape).astype(np.float32)
    assert_as_reference(graph, feeds, device, Style.GPU, LARGE)
