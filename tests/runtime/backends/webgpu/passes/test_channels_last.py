"""Channels last, where convolutions gain from it: the same values, and only there."""

from collections.abc import Mapping

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph, Op, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Concat,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Input,
    Maximum,
    MaxPool,
    MaxPoolGradient,
    Mul,
    Pad,
    Reshape,
    Slice,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_runtime.backends.webgpu.config.limits import (
    DeviceLimits,
    MatrixDialect,
    MatrixUnits,
    Style,
    Target,
)
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast
from meganeura_runtime.backends.webgpu.passes.channels_last import channels_last_layout
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.runtime.running import assert_as_reference, graph_of

SOFTWARE = Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN)
PLAIN = DeviceLimits(
    workgroup_bytes=32 << 10, half_floats=True, matrix_units=MatrixUnits(MatrixDialect.PLAIN)
)
UNITS = Target(PLAIN)
ONCE = ((1, 1), (1, 1), (1, 1), 1)

SIZES = [
    (1, 32, 1, 1, 1, 1),
    (3, 64, 1, 3, 2, 1),
    (41, 33, 3, 8, 1, 2),
    (32, 96, 2, 13, 2, 1),
    (4, 127, 2, 9, 3, 1),
]
"""Channels, outputs, images, pixels along an axis, stride and dilation."""


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def layers() -> tuple[Graph, Mapping[str, Array]]:
    """Two convolutions with a bias, a residual, sums in some orders and a reshape around them."""
    feeds = {"x": numbers(2, 3, 12, 11), "v": numbers(32, 3, 3, 3), "w": numbers(32, 32, 3, 3)}
    feeds["b"] = numbers(32)
    build = Builder()
    x, v, w, b = (build.add(Input(n, DType.F32, each.shape)) for n, each in feeds.items())
    y = build.add(Conv(*ONCE), x, v)
    bias = build.add(Broadcast((2, 32, 12, 11), (1,)), b)
    y = build.add(Maximum(), build.add(Add(), y, bias), bias)
    z = build.add(Add(), y, build.add(Conv(*ONCE), y, w))
    outputs = {
        "z": z,
        "channels": build.add(Sum((0, 2, 3)), z),
        "images": build.add(Sum((1, 2, 3)), z),
        "pixels": build.add(Sum((0,)), z),
        "flat": build.add(Reshape((2, 4224)), z),
        "w": build.add(ConvWeightGradient(*ONCE, (3, 3)), y, z),
        "y": build.add(ConvInputGradient(*ONCE, (12, 11)), w, build.add(Mul(), z, z)),
    }
    return build.graph(outputs), feeds


def images() -> tuple[Graph, Mapping[str, Array]]:
    """Convolutions between which elements are moved, pooled and normalized in groups."""
    feeds = {"x": numbers(8, 8, 8, 8), "w": numbers(16, 16, 3, 3), "v": numbers(16, 8, 3, 3)}
    build = Builder()
    x, w, v = (build.add(Input(n, DType.F32, each.shape)) for n, each in feeds.items())
    y = build.add(Conv(*ONCE), x, v)
    groups = build.add(Reshape((8, 2, 8, 8, 8)), y)
    totals = build.add(Sum((2, 3, 4)), build.add(Mul(), groups, groups))
    spread = build.add(Broadcast(groups.type.shape, (0, 1)), totals)
    y = build.add(Reshape(y.type.shape), build.add(Add(), groups, spread))
    y = build.add(Conv(*ONCE), y, w)
    geometry = ((3, 3), (2, 2), (1, 1))
    least, indices = build.add_all(MaxPool(*geometry), y)
    spread = build.add(Broadcast((8, 16, 4, 2, 4, 2), (0, 1, 2, 4)), least)
    large = build.add(Reshape((8, 16, 8, 8)), spread)
    both = build.add(Concat(1), large, y)
    part = build.add(Slice((0, 8, 1, 0), (8, 24, 8, 7), (1, 1, 1, 2)), both)
    padded = build.add(Pad((0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 1)), part)
    turned = build.add(Transpose((0, 1, 3, 2)), padded)
    z = build.add(Conv(*ONCE), turned, w)
    outputs = {
        "z": z,
        "smaller": build.add(Sum((3, 5)), build.add(Reshape((8, 16, 4, 2, 4, 2)), z)),
        "pooled": build.add(
            Conv(*ONCE), build.add(MaxPoolGradient(*geometry, (8, 8)), indices, least), w
        ),
        "w": build.add(ConvWeightGradient(*ONCE, (3, 3)), turned, z),
        "rows": build.add(Reshape((8 * 16 * 8, 8)), build.add(Mul(), z, z)),
    }
    return build.graph(outputs), feeds


def turned(graph: Graph) -> list[Value]:
    return [value for value in graph.values if isinstance(value.op, ChannelsLast)]


def test_values_are_the_same_in_another_order() -> None:
    graph, feeds = layers()
    moved = channels_last_layout(graph, SOFTWARE)
    assert len(turned(moved)) == 4
    expected, actual = evaluate(graph, feeds).outputs, evaluate(moved, feeds).outputs
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-4)


def test_elements_are_moved_where_they_lie() -> None:
    graph, feeds = images()
    moved = channels_last_layout(graph, UNITS)
    verify(moved)
    assert len(turned(moved)) == 5
    crossed = {
        type(value.op)
        for value in moved.values
        if not isinstance(value.op, ChannelsLast)
        for each in value.operands
        if isinstance(each.op, Transpose) and each.type.rank == 4
        if concrete_shape(each.type.shape)[1] == 16
    }
    assert crossed == {Transpose, Reshape}, "an image on its side, and rows of the last output"
    expected, actual = evaluate(graph, feeds).outputs, evaluate(moved, feeds).outputs
    for name, value in expected.items():
        np.testing.assert_allclose(
            actual[name], value, rtol=1e-4, atol=1e-4 * float(np.max(abs(value)))
        )


def test_a_convolution_of_few_channels_reads_images_as_they_were() -> None:
    feeds = {"x": numbers(2, 8, 12, 12), "v": numbers(8, 8, 3, 3), "w": numbers(3, 8, 3, 3)}
    build = Builder()
    x, v, w = (build.add(Input(n, DType.F32, each.shape)) for n, each in feeds.items())
    y = build.add(Conv(*ONCE), build.add(Conv(*ONCE), x, v), w)
    moved = channels_last_layout(build.graph({"y": y}), UNITS)
    last = moved.outputs["y"]
    assert isinstance(last.op, Conv)
    assert isinstance(last.operands[0].op, Cast)
    np.testing.assert_allclose(
        evaluate(moved, feeds).outputs["y"],
        evaluate(build.graph({"y": y}), feeds).outputs["y"],
        rtol=1e-4,
        atol=1e-3,
    )


def test_a_graph_with_grouped_convolutions_stays_as_it_is_on_matrix_units() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (2, 16, 16, 16)))
    v = build.add(Input("v", DType.F32, (16, 1, 3, 3)))
    w = build.add(Input("w", DType.F32, (16, 16, 1, 1)))
    y = build.add(Conv((1, 1), (1, 1), (1, 1), 16), x, v)
    graph = build.graph({"y": build.add(Conv((1, 1), (0, 0), (1, 1), 1), y, w)})
    assert channels_last_layout(graph, UNITS) is graph


@pytest.mark.parametrize("axes", [(), (0,), (1,), (3,), (0, 1), (1, 2), (2, 3), (1, 2, 3)])
def test_a_broadcast_of_any_axes_meets_channels_last(axes: tuple[int, ...]) -> None:
    shape = (2, 32, 12, 11)
    feeds = {"x": numbers(2, 32, 12, 11), "w": numbers(32, 32, 3, 3)}
    feeds["e"] = numbers(*(shape[axis] for axis in axes))
    build = Builder()
    x, w, e = (build.add(Input(n, DType.F32, each.shape)) for n, each in feeds.items())
    y = build.add(Mul(), build.add(Conv(*ONCE), x, w), build.add(Broadcast(shape, axes), e))
    graph = build.graph({"y": y})
    moved = channels_last_layout(graph, SOFTWARE)
    verify(moved)
    assert len(turned(moved)) == 1
    expected, actual = evaluate(graph, feeds).outputs["y"], evaluate(moved, feeds).outputs["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


def test_what_lies_between_convolutions_is_not_moved_to_and_fro() -> None:
    graph, _ = layers()
    names = [one.name for one in plan_graph(graph, SOFTWARE.limits, SOFTWARE.style).dispatches]
    assert sum(name.endswith("cast") for name in names) == 3, names  # x, v and w


@pytest.mark.parametrize(
    "target",
    [Target(DeviceLimits(lanes=8), Style.GPU), Target(DeviceLimits(), Style.SOFTWARE_VULKAN)],
)
def test_adapters_without_shuffles_gain_nothing(target: Target) -> None:
    graph, _ = layers()
    assert channels_last_layout(graph, target) is graph


@pytest.mark.parametrize("weights", [(16, 32, 3, 3), (33, 32, 3, 3)])
def test_there_have_to_be_channels_for_all_lanes(weights: tuple[int, ...]) -> None:
    graph, _ = graph_of(Conv(*ONCE), numbers(2, weights[1], 16, 16), numbers(*weights))
    assert not turned(channels_last_layout(graph, SOFTWARE))


@pytest.mark.parametrize(("groups", "depth"), [(2, 16), (32, 1)])
def test_groups_stay_as_they_are(groups: int, depth: int) -> None:
    op = Conv((1, 1), (1, 1), (1, 1), groups)
    graph, _ = graph_of(op, numbers(1, 32, 16, 16), numbers(32, depth, 3, 3))
    assert not turned(channels_last_layout(graph, SOFTWARE))


@pytest.mark.parametrize(("samples", "gains"), [(10, False), (11, True)])
def test_a_kernel_is_moved_for_many_pixels(samples: int, *, gains: bool) -> None:
    graph, _ = graph_of(Conv(*ONCE), numbers(samples, 3, 5, 5), numbers(32, 3, 3, 3))
    assert bool(turned(channels_last_layout(graph, SOFTWARE))) == gains


@pytest.mark.adapter
class TestAdapter:
    """Tests that need an adapter; without shuffles, nothing is moved."""

    def test_layers(self, device: Device) -> None:
        assert_as_reference(*layers(), device)

    @pytest.mark.parametrize(("depth", "outputs", "samples", "size", "stride", "dilation"), SIZES)
    def test_convolutions_and_their_gradients(
        self,
        depth: int,
        outputs: int,
        samples: int,
        size: int,
        stride: int,
        dilation: int,
        device: Device,
    ) -> None:
        geometry = ((stride, stride), (dilation, dilation), (dilation, dilation), 1)
        pixels = (size - 1) // stride + 1
        x, w = numbers(samples, depth, size, size), numbers(outputs, depth, 3, 3)
        dy = numbers(samples, outputs, pixels, pixels)
        cases: tuple[tuple[Op, Array, Array], ...] = (
            (Conv(*geometry), x, w),
            (ConvInputGradient(*geometry, (size, size)), w, dy),
            (ConvWeightGradient(*geometry, (3, 3)), x, dy),
        )
        for op, *operands in cases:
            graph, feeds = graph_of(ChannelsLast(op), *operands)
            assert_as_reference(graph, feeds, device)

    def test_a_large_convolution(self, device: Device) -> None:
        geometry = ((2, 2), (1, 1), (1, 1), 1)
        x, w, dy = numbers(5, 32, 26, 26), numbers(64, 32, 5, 5), numbers(5, 64, 12, 12)
        for op, *operands in (
            (Conv(*geometry), x, w),
            (ConvInputGradient(*geometry, (26, 26)), w, dy),
            (ConvWeightGradient(*geometry, (5, 5)), x, dy),
        ):
            graph, feeds = graph_of(op, *operands)
            assert_as_reference(graph, feeds, device)

    def test_one_axis_of_pixels(self, device: Device) -> None:
        graph, feeds = graph_of(Conv((2,), (1,), (1,), 1), numbers(31, 32, 17), numbers(32, 32, 3))
        assert turned(channels_last_layout(graph, SOFTWARE))
        assert_as_reference(graph, feeds, device)
