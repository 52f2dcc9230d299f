"""Row kernels: reductions that workgroups make together, and what is computed from them."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    ArgMax,
    Div,
    Exp,
    Input,
    MatMul,
    Mul,
    Parameter,
    Reshape,
    Slice,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
)
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full, others
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import row_reduction_of
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
    Target,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.running import assert_as_reference

pytestmark = pytest.mark.adapter

Axes = tuple[int, ...]

UNITS = DeviceLimits(
    workgroup_bytes=32 << 10, half_floats=True, matrix_units=MatrixUnits(MatrixDialect.PLAIN)
)


class Net:
    """A graph being built, with short names for what the tests need."""

    def __init__(self) -> None:
        self.build = Builder()

    def input(self, name: str, *shape: int) -> Value:
        return self.build.add(Input(name, DType.F32, shape))

    def parameter(self, name: str, *shape: int) -> Value:
        return self.build.add(Parameter(name, DType.F32, shape, "param"))

    def spread(self, row: Value, like: Value, axes: Axes) -> Value:
        kept = others(axes, like.type.rank)
        return self.build.add(Broadcast(like.type.shape, kept), row)

    def mean(self, x: Value, axes: Axes) -> Value:
        total = self.build.add(Sum(axes), x)
        count = np.prod([concrete_shape(x.type.shape)[axis] for axis in axes])
        return self.build.add(Mul(), total, full(self.build, total.type, 1 / float(count)))

    def softmax(self, x: Value, axes: Axes) -> Value:
        add = self.build.add
        largest = add(StopGradient(), add(ReduceMax(axes), x))
        raised = add(Exp(), add(Sub(), x, self.spread(largest, x, axes)))
        return add(Div(), raised, self.spread(add(Sum(axes), raised), x, axes))

    def normalized(self, x: Value, axes: Axes) -> tuple[Value, Value, Value]:
        add = self.build.add
        mean = self.mean(x, axes)
        centred = add(Sub(), x, self.spread(mean, x, axes))
        variance = self.mean(add(Mul(), centred, centred), axes)
        deviation = add(Sqrt(), add(Add(), variance, full(self.build, variance.type, 1e-5)))
        return add(Div(), centred, self.spread(deviation, x, axes)), mean, variance


def check(
    graph: Graph, device: Device, dispatches: int, limits: DeviceLimits | None = None
) -> None:
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.op.shape)).astype(np.float32)
        for value in graph.values
        if isinstance(value.op, Input | Parameter)
    }
    limits = limits or device.limits
    assert len(plan_graph(graph, limits, Style.GPU).dispatches) == dispatches
    assert_as_reference(graph, feeds, device, Style.GPU, limits)


@pytest.mark.parametrize(
    ("op", "shape", "rows"),
    [
        (Sum((0,)), (31, 5), None),
        (Sum((0,)), (32, 5), (5, 32, False)),
        (ReduceMax((1,)), (5, 32), (5, 32, True)),
        (ArgMax(1), (5, 32, 3), (15, 32, False)),
        (Sum((0, 2)), (4, 5, 9), (5, 36, True)),
        (Sum((0,)), (256, 1 << 14), (1 << 14, 256, False)),
        (Sum((0,)), (256, (1 << 14) + 1), None),
        (Sum((0,)), (257, (1 << 14) + 1), ((1 << 14) + 1, 257, False)),
        (Sum((1,)), ((1 << 14) + 1, 256), ((1 << 14) + 1, 256, True)),
        (Exp(), (5, 32), None),
    ],
)
def test_which_rows_lanes_reduce_together(
    op: Op, shape: tuple[int, ...], rows: tuple[int, int, bool] | None
) -> None:
    """Not short ones, nor those far apart and so many that one lane each is busy enough."""
    build = Builder()
    value = build.add(op, build.add(Input("x", DType.F32, shape)))
    found = row_reduction_of(value, Target(DeviceLimits()))
    assert (found and (found.count, found.terms, found.contiguous)) == rows
    assert row_reduction_of(value, Target(DeviceLimits(), Style.SOFTWARE_VULKAN)) is None


SHAPES: list[tuple[tuple[int, ...], Axes]] = [
    ((1, 41), (1,)),
    ((129, 127), (1,)),
    ((3, 41, 128), (2,)),
    ((2, 3, 17, 1500), (3,)),
    ((41, 3, 7, 7), (0, 2, 3)),
    ((3, 33, 12, 12), (0, 2, 3)),
    ((1, 5, 6, 50), (2, 3)),
    ((129, 41), (0,)),
    ((300, 1, 9), (0,)),
    ((40, 2049), (0,)),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_a_softmax_is_one_kernel(shape: tuple[int, ...], axes: Axes, device: Device) -> None:
    net = Net()
    check(net.build.graph({"y": net.softmax(net.input("x", *shape), axes)}), device, 1)


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_a_normalization_is_one_kernel_with_its_statistics(
    shape: tuple[int, ...], axes: Axes, device: Device
) -> None:
    net = Net()
    y, mean, variance = net.normalized(net.input("x", *shape), axes)
    check(net.build.graph({"y": y, "mean": mean, "variance": variance}), device, 1)


def test_workgroups_of_the_least_adapter(device: Device) -> None:
    net = Net()
    y, _, _ = net.normalized(net.input("x", 700, 41), (0,))
    z = net.softmax(net.input("z", 41, 500), (1,))
    check(net.build.graph({"y": y, "z": z}), device, 2, DeviceLimits(workgroups=3))


def test_statistics_are_updated_where_the_scale_is_read_and_updated_too(device: Device) -> None:
    net, axes = Net(), (0, 2)
    add = net.build.add
    x = net.input("x", 5, 33, 64)
    scale, running = net.parameter("scale", 33), net.parameter("running", 33)
    y, mean, _ = net.normalized(x, axes)
    scaled = add(Mul(), y, net.spread(scale, x, axes))
    new = add(Add(), running, mean)
    updates = {"running": new, "scale": add(Sub(), scale, mean)}
    graph = net.build.graph({"scaled": scaled}, updates)
    assert plan_graph(graph, device.limits, Style.GPU).copies == ()
    check(graph, device, 1)


def test_terms_in_another_order_are_read_from_memory(device: Device) -> None:
    net = Net()
    rows = net.softmax(net.input("x", 48, 48), (1,))
    check(net.build.graph({"y": net.softmax(rows, (0,))}), device, 2)


def test_few_rows_are_shared_out(device: Device) -> None:
    net = Net()
    x = net.input("x", 2, 70_001)
    largest = net.build.add(ReduceMax((1,)), x)
    check(net.build.graph({"total": net.build.add(Sum((0, 1)), x), "largest": largest}), device, 3)


def test_rows_of_another_shape(device: Device) -> None:
    net = Net()
    x = net.input("x", 6, 10, 36)
    y = net.softmax(net.build.add(Reshape((60, 36)), x), (1,))
    check(net.build.graph({"y": net.build.add(Reshape((6, 360)), y)}), device, 1)


@pytest.mark.parametrize("dtype", [DType.I32, DType.U32])
def test_whole_numbers(dtype: DType, device: Device) -> None:
    build = Builder()
    x = build.add(Input("x", dtype, (41, 127)))
    outputs = {"sum": build.add(Sum((1,)), x), "max": build.add(ReduceMax((1,)), x)}
    kind = np.int32 if dtype is DType.I32 else np.uint32
    feed = np.random.default_rng(0).integers(0, 1 << 30, (41, 127)).astype(kind)
    assert_as_reference(build.graph(outputs), {"x": feed}, device, Style.GPU)


def test_a_product_between_two_softmaxes(device: Device) -> None:
    net = Net()
    x = net.input("x", 40, 40)
    product = net.build.add(MatMul(), net.softmax(x, (1,)), x)
    check(net.build.graph({"y": net.softmax(product, (1,))}), device, 3)


@pytest.mark.parametrize("shape", [(5, 1500), (3, 90)])
def test_rows_are_overwritten_by_what_is_computed_of_them(
    shape: tuple[int, int], device: Device
) -> None:
    """Lanes that have no term left must not write: what they would read is overwritten."""
    net = Net()
    graph = net.build.graph({}, {"p": net.softmax(net.parameter("p", *shape), (1,))})
    assert plan_graph(graph, device.limits, Style.GPU).copies == ()
    check(graph, device, 1)


def test_sums_of_as_many_terms_but_other_rows_have_a_kernel_of_their_own(device: Device) -> None:
    """They are as many as the terms of the first, whose kernel could hold them but not sum them."""
    net, n = Net(), 64
    x, z = net.input("x", n, n), net.input("z", n, n, n)
    first = net.build.add(Sum((1,)), x)
    weighted = net.build.add(Mul(), z, net.spread(first, z, (0, 2)))
    graph = net.build.graph({"first": first, "second": net.build.add(Sum((2,)), weighted)})
    random = np.random.default_rng(0)
    feeds = {
        name: random.normal(size=(n,) * rank).astype("f4") for name, rank in (("x", 2), ("z", 3))
    }
    assert_as_reference(graph, feeds, device, Style.GPU)


@pytest.mark.parametrize("kept", ["as an output", "in the place of a parameter"])
def test_a_value_of_rows_reads_the_terms_of_another_row_in_a_kernel_of_its_own(
    device: Device, kept: str
) -> None:
    """The first row has an element for each row, but only the first of them is of that row."""
    net, n = Net(), 64
    p = net.parameter("p", n, n)
    total = net.build.add(Sum((1,)), p)
    terms = net.build.add(Mul(), p, net.spread(total, p, (1,)))
    source, updates = (terms, {}) if kept == "as an output" else (p, {"p": terms})
    first = net.build.add(Slice((0, 0), (1, n), (1, 1)), source)
    row = net.build.add(Mul(), net.build.add(Reshape((n,)), first), total)
    outputs = {"row": row} if updates else {"row": row, "terms": terms}
    feeds = {"p": np.random.default_rng(0).normal(size=(n, n)).astype("f4")}
    assert_as_reference(net.build.graph(outputs, updates), feeds, device, Style.GPU)


@pytest.mark.parametrize(
    ("shape", "axes", "dispatches"),
    [
        ((3, 700, 36), (0, 1), 2),
        ((3, 9, 4, 4), (1, 3), 1),
        *effort(
            [], [((129, 44), (0,), 1), ((2, 200, 8), (1,), 1), ((2, 13, 5, 6, 12), (1, 2, 4), 1)]
        ),
    ],
    ids=str,
)
def test_neighbouring_sums_beside_matrix_units(
    shape: tuple[int, ...], axes: Axes, dispatches: int, device: Device
) -> None:
    """A lane takes four columns, or lanes side by side take short pieces of neighbouring rows."""
    net = Net()
    x = net.input("x", *shape)
    total = net.build.add(Sum(axes), net.build.add(Mul(), x, x))
    check(net.build.graph({"y": total}), device, dispatches, UNITS)
    y, mean, variance = net.normalized(x, axes)
    graph = net.build.graph({"y": y, "mean": mean, "variance": variance})
    check(graph, device, len(plan_graph(graph, UNITS, Style.GPU).dispatches), UNITS)
