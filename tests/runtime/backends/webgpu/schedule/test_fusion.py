"""Fusion: what shares a kernel, and what must not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value, dependencies
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Conv,
    ConvInputGradient,
    Exp,
    Input,
    Iota,
    MatMul,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Parameter,
    ReduceMax,
    Reshape,
    ScatterAdd,
    Slice,
    Sub,
    Sum,
    Tanh,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import elaborate_model, load
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.backends.webgpu.analysis.materialize import elements, materialized_values
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.passes.legalize import legalize
from meganeura_runtime.backends.webgpu.passes.relu_backward_from_output import (
    relu_backward_from_output,
)
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.runtime.running import assert_as_reference


class Net:
    """A graph being written, in fewer words."""

    def __init__(self) -> None:
        self.build = Builder()

    def input(self, name: str, *shape: int) -> Value:
        return self.build.add(Input(name, DType.F32, shape))

    def parameter(self, name: str, *shape: int) -> Value:
        return self.build.add(Parameter(name, DType.F32, shape, "param"))

    def add(self, a: Value, b: Value) -> Value:
        return self.build.add(Add(), a, b)

    def like(self, x: Value, axes: tuple[int, ...], y: Value) -> Value:
        return self.build.add(Broadcast(x.type.shape, axes), y)

    def relu(self, x: Value) -> Value:
        return self.build.add(Maximum(), x, full(self.build, x.type, 0))

    def plan(self, **outputs: Value) -> Plan:
        return plan_graph(self.build.graph(outputs), DeviceLimits())


def names(plan: Plan) -> list[str]:
    return [dispatch.name for dispatch in plan.dispatches]


def test_bias_and_activation_join_the_contraction() -> None:
    net = Net()
    x = net.input("x", 2, 3, 8, 8)
    y = net.build.add(Conv((1, 1), (1, 1), (1, 1), 1), x, net.parameter("w", 4, 3, 3, 3))
    y = net.relu(net.add(y, net.like(y, (1,), net.parameter("b", 4))))
    assert names(net.plan(y=y)) == ["conv 3x3 3->4 @8x8 + bias + relu"]


def test_a_reshaped_result_is_stored_by_the_contraction() -> None:
    net = Net()
    y = net.build.add(MatMul(), net.input("x", 6, 4), net.parameter("w", 4, 4))
    y = net.build.add(Exp(), net.build.add(Reshape((2, 3, 2, 2)), y))
    assert len(net.plan(y=y).dispatches) == 1


def test_heads_are_split_without_a_copy() -> None:
    net = Net()
    x = net.input("x", 2, 5, 12)
    heads = net.build.add(Transpose((0, 2, 1, 3)), net.build.add(Reshape((2, 5, 3, 4)), x))
    y = net.build.add(MatMul(transpose_right=True), heads, heads)
    assert names(net.plan(y=y)) == ["matmul 6x5x5x4"]


def test_softmax_takes_three_kernels() -> None:
    net = Net()
    x = net.input("x", 5, 7)
    shifted = net.build.add(Sub(), x, net.like(x, (0,), net.build.add(ReduceMax((1,)), x)))
    weights = net.build.add(Exp(), shifted)
    total = net.build.add(Sum((1,)), weights)
    y = net.build.add(Mul(), weights, net.like(x, (0,), total))
    assert len(net.plan(y=y).dispatches) == 3


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("lengths", "kernels"), [((60,), 1), ((60, 60), 1), ((96,), 1), ((97,), 2), ((130,), 2)]
)
def test_a_kernel_is_so_deep_at_most_however_wide_it_is(
    lengths: tuple[int, ...], kernels: int
) -> None:
    """Of a chain of ops the 64th is stored, and what is computed from it joins up to the 96th."""
    net = Net()
    x = net.input("x", 100)
    ends: dict[str, Value] = {}
    for number, length in enumerate(lengths):
        y = net.add(x, net.input(f"x{number}", 100))
        for _ in range(length - 1):
            y = net.build.add(Tanh(), y)
        ends[f"y{number}"] = y
    assert len(net.plan(**ends).dispatches) == kernels


def test_sums_over_the_same_terms_share_a_kernel() -> None:
    net = Net()
    x = net.input("x", 5, 7)
    mean = net.build.add(Sum((0,)), x)
    square = net.build.add(Sum((0,)), net.build.add(Mul(), x, x))
    assert len(net.plan(mean=mean, square=square).dispatches) == 1


def test_a_sum_of_a_sum_does_not_share_its_kernel() -> None:
    net = Net()
    x = net.input("x", 5, 7)
    mean = net.build.add(Sum((0,)), x)
    away = net.build.add(Sub(), x, net.like(x, (1,), mean))
    spread = net.build.add(Sum((0,)), net.build.add(Mul(), away, away))
    assert len(net.plan(mean=mean, spread=spread).dispatches) == 2


def test_what_an_optimizer_updates_is_made_by_one_kernel() -> None:
    net = Net()
    p, m, g = net.parameter("p", 9), net.parameter("m", 9), net.input("g", 9)
    new = net.add(m, net.build.add(Mul(), g, g))
    moved = net.build.add(Sub(), p, new)
    plan = plan_graph(net.build.graph({}, {"m": new, "p": moved}), DeviceLimits())
    assert names(plan) == ["update 9"]
    assert plan.copies == ()


def test_views_and_constants_take_no_kernel_of_their_own() -> None:
    net = Net()
    x = net.input("x", 3, 5)
    turned = net.build.add(Transpose((1, 0)), net.build.add(Transpose((1, 0)), x))
    numbers = net.build.add(Broadcast((3, 5), (1,)), net.build.add(Iota(5)))
    y = net.add(net.add(turned, full(net.build, x.type, 2)), x)
    assert len(net.plan(y=y).dispatches) == 1
    assert len(net.plan(y=y, numbers=numbers).dispatches) == 1


def test_a_dear_value_of_many_uses_is_computed_once() -> None:
    net = Net()
    x = net.input("x", 512, 512)
    dear = net.build.add(Tanh(), net.build.add(Exp(), net.build.add(Tanh(), x)))
    rows = {f"y{axis}": net.build.add(Sum((axis,)), dear) for axis in (0, 1)}
    plan = net.plan(product=net.build.add(MatMul(), dear, dear), **rows)
    computing = [one for one in plan.dispatches if "tangent" in plan.kernels[one.kernel]]
    assert len(computing) == 1


def test_a_gpu_computes_again_what_is_quickly_computed(tmp_path: Path) -> None:
    """Training keeps what a batch norm is given and what a convolution reads, nothing between."""
    text = """\
block Net()(x: [n, 8, h, w]) -> []:
  y = x |> conv1: conv2d(8, 3, pad=1) |> bn1: batch_norm |> relu
  y = y |> conv2: conv2d(8, 3, pad=1) |> bn2: batch_norm |> relu
  return mean(y ** 2)
model net = Net()
"""
    (tmp_path / "net.mgn").write_text(text)
    sizes = {"n": 4, "h": 32, "w": 32}
    program = load(str(tmp_path / "net.mgn"))
    forward = elaborate_model(program, sizes=sizes, training=True).graph
    graph = training_step(
        replace(forward, outputs={"loss": forward.outputs["output"]}), TrainingSettings(Sgd())
    )
    target = Target(DeviceLimits(), Style.GPU)
    lowered = legalize(relu_backward_from_output(graph, target), target)
    forward_values = dependencies([lowered.outputs["loss"]])
    kept = materialized_values(lowered, target)
    large = [v for v in forward_values if v.id in kept and elements(v) == 4 * 8 * 32 * 32]
    assert [type(v.op).__name__ for v in large] == ["Input", "Conv", "Where", "Conv"]


@pytest.mark.parametrize(("stride", "kernels"), [(1, 1), (2, 2)])
def test_what_is_made_apart_is_finished_by_a_kernel_of_its_own(stride: int, kernels: int) -> None:
    """The gradient of a strided convolution gives neighbours to different workgroups."""
    net, size = Net(), 128
    dy = net.input("dy", 4, 16, size // stride, size // stride)
    gradient = ConvInputGradient((stride, stride), (0, 0), (1, 1), 1, (size, size))
    dx = net.build.add(gradient, net.parameter("w", 16, 16, 1, 1), dy)
    y = net.add(dx, net.input("x", 4, 16, size, size))
    assert len(net.plan(y=y).dispatches) == kernels


@pytest.mark.parametrize(
    ("rows", "terms", "kernels"),
    [(16, 4096, 1), (16, 4097, 2), (31, 2115, 2), (32, 2115, 1)],
)
def test_few_long_rows_are_gone_over_again_by_another_kernel(
    rows: int, terms: int, kernels: int
) -> None:
    """Up to 65536 terms in all, or for 32 rows and more, the kernel of their largest does so."""
    net = Net()
    x = net.input("x", rows, terms)
    first = net.build.add(Cast(DType.F32), net.build.add(ArgMax(1), x))
    assert len(net.plan(y=net.add(x, net.like(x, (0,), first))).dispatches) == kernels


@pytest.mark.parametrize(("more", "kernels"), [(48, 1), (49, 2)])
def test_no_kernel_computes_more_than_96_ops_one_in_another(more: int, kernels: int) -> None:
    net = Net()
    y = x = net.input("x", 40)
    made: dict[str, Value] = {}
    for name, count in {"y": 48, "z": more}.items():
        for _ in range(count):
            y = net.build.add(Sub(), x, y)
        made[name] = y
    assert len(net.plan(**made).dispatches) == kernels


@pytest.mark.adapter
def test_some_terms_of_rows_are_summed_by_another_kernel(device: Device) -> None:
    """The same rows, whose elements a kernel has at hand, but not all of each."""
    net = Net()
    x = net.input("x", 40, 64)
    raised = net.build.add(Exp(), net.build.add(Sub(), x, net.like(x, (0,), largest(net, x))))
    first = net.build.add(Slice((0, 0), (40, 32), (1, 1)), raised)
    graph = net.build.graph({"raised": raised, "first": net.build.add(Sum((1,)), first)})
    assert len(plan_graph(graph, device.limits).dispatches) == 2
    assert_as_reference(graph, feeds(graph), device, Style.GPU)
    whole = net.build.graph({"raised": raised, "all": net.build.add(Sum((1,)), raised)})
    assert len(plan_graph(whole, device.limits).dispatches) == 1


def largest(net: Net, x: Value) -> Value:
    return net.build.add(ReduceMax((1,)), x)


@pytest.mark.adapter
def test_a_value_that_is_an_output_and_read_inside(device: Device) -> None:
    net = Net()
    x = net.input("x", 6, 4)
    hidden = net.build.add(MatMul(), x, net.parameter("w", 4, 4))
    active = net.relu(hidden)
    y = net.build.add(MatMul(), active, net.parameter("v", 4, 3))
    graph = net.build.graph({"hidden": hidden, "active": active, "y": y, "again": y})
    assert_as_reference(graph, feeds(graph), device)


@pytest.mark.adapter
def test_a_producer_of_several_uses(device: Device) -> None:
    net = Net()
    x = net.input("x", 4, 4)
    shared = net.build.add(MatMul(), x, x)
    left = net.build.add(Transpose((1, 0)), shared)
    graph = net.build.graph(
        {
            "sum": net.add(shared, left),
            "product": net.build.add(MatMul(), shared, left),
            "rows": net.build.add(Sum((1,)), shared),
        }
    )
    assert_as_reference(graph, feeds(graph), device)


@pytest.mark.adapter
def test_a_diamond_of_kernels_has_no_circle(device: Device) -> None:
    net = Net()
    x = net.input("x", 5, 5)
    row = net.build.add(Sum((1,)), x)
    inner = net.build.add(Exp(), net.build.add(Sub(), row, full(net.build, row.type, 1)))
    spread = net.build.add(MatMul(), x, net.like(x, (0,), inner))
    back = net.build.add(Sum((1,)), spread)
    graph = net.build.graph({"y": net.add(net.add(row, back), inner)})
    assert_as_reference(graph, feeds(graph), device)


def sums_of_other_shapes(net: Net) -> dict[str, Value]:
    """As many elements, each of as many terms."""
    x = net.input("x", 2, 8, 40)
    views = [x, *(net.build.add(Reshape(shape), x) for shape in ((4, 4, 40), (16, 40)))]
    return {
        f"y{number}": net.build.add(Sum((each.type.rank - 1,)), each)
        for number, each in enumerate(views)
    }


def sums_of_other_lengths(net: Net) -> dict[str, Value]:
    x = net.input("x", 16, 40)
    fewer = net.build.add(Slice((0, 0), (16, 39), (1, 1)), x)
    return {name: net.build.add(Sum((1,)), each) for name, each in (("y", x), ("z", fewer))}


def sums_along_other_lists(net: Net) -> dict[str, Value]:
    """So many updates that each row follows a list of its own."""
    count = 520
    x, positions = net.input("x", count), net.build.add(Iota(count))
    backwards = net.build.add(Sub(), full(net.build, positions.type, count - 1), positions)
    twice = net.build.add(Minimum(), positions, backwards)
    return {
        name: net.build.add(ScatterAdd(0, count), ids, x)
        for name, ids in (("y", backwards), ("z", twice))
    }


@pytest.mark.adapter
@pytest.mark.parametrize(
    "outputs", [sums_of_other_shapes, sums_of_other_lengths, sums_along_other_lists]
)
@pytest.mark.parametrize("style", Style)
def test_what_shares_a_loop_is_of_one_shape_and_goes_over_the_same(
    outputs: Callable[[Net], dict[str, Value]], style: Style, device: Device
) -> None:
    net = Net()
    graph = net.build.graph(outputs(net))
    assert_as_reference(graph, feeds(graph), device, style)


@pytest.mark.adapter
def test_chains_however_long(device: Device) -> None:
    net = Net()
    x = net.input("x", 7)
    y = z = x
    for _ in range(1000):
        y = net.add(y, x)
    for _ in range(40):
        z = net.build.add(Mul(), z, z)
    graph = net.build.graph({"y": y, "z": z})
    assert_as_reference(graph, feeds(graph), device)


@pytest.mark.adapter
def test_more_tensors_than_a_kernel_can_be_bound_to(device: Device) -> None:
    net = Net()
    total = net.input("x0", 3, 4)
    for number in range(1, 41):
        total = net.add(total, net.input(f"x{number}", 3, 4))
    graph = net.build.graph({"y": total})
    few = replace(device.limits, storage_buffers=8)
    assert_as_reference(graph, feeds(graph), device, limits=few)


@pytest.mark.adapter
@pytest.mark.parametrize("same", [False, True], ids=["other ids", "the same ids"])
def test_scatters_share_a_kernel_where_their_lists_are_the_same(
    device: Device, *, same: bool
) -> None:
    """The gradients of two tables of one size that are added up: each has the ids of its own."""
    net, count, rows, width = Net(), 64, 1100, 4
    scatter = ScatterAdd(0, rows)
    updates = net.input("updates", count, width)
    ids = [net.build.add(Input(name, DType.I32, (count,))) for name in ("a", "b")]
    tables = {
        f"of {number}": net.build.add(scatter, ids[0] if same else one, updates)
        for number, one in enumerate(ids)
    }
    doubled = net.build.add(scatter, ids[0] if same else ids[1], net.add(updates, updates))
    graph = net.build.graph({**tables, "doubled": doubled})
    random = np.random.default_rng(0)
    picked = {name: random.integers(0, rows, count).astype(np.int32) for name in ("a", "b")}
    given = {**picked, "updates": random.normal(size=(count, width)).astype(np.float32)}
    assert_as_reference(graph, given, device, Style.GPU)


def feeds(graph: Graph) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input | Parameter)
    }


def pooled(*names: str) -> tuple[Graph, dict[str, Array]]:
    """A pool of a sum, and those of its results that are wanted."""
    net = Net()
    x = net.input("x", 1, 2, 6, 6)
    largest, indices = net.build.add_all(MaxPool((2, 2), (2, 2), (0, 0)), net.add(x, x))
    wide = net.build.add(Cast(DType.F32), indices)
    every = {"largest": largest, "indices": indices, "both": net.add(largest, wide)}
    graph = net.build.graph({name: every[name] for name in names})
    return graph, {"x": np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)}


@pytest.mark.adapter
@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize(
    "names", [("largest",), ("indices",), ("both",), ("largest", "indices", "both")]
)
def test_results_of_one_op_are_of_one_kernel(
    names: tuple[str, ...], style: Style, device: Device
) -> None:
    """With whatever is computed from several of them, and without those that nobody uses."""
    graph, feeds = pooled(*names)
    plan = plan_graph(graph, device.limits, style)
    (dispatch,) = plan.dispatches
    assert len(dispatch.slots) == 1 + len(names)
    assert_as_reference(graph, feeds, device, style)
