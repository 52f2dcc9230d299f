"""Contractions on CPUs that pose as GPUs: with shuffles where they work, and without."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import Add, Conv, ConvInputGradient, Input, MatMul
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import (
    SubgroupTile,
    subgroup_tile_of,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.running import assert_as_reference, graph_of

WITH, WITHOUT = (DeviceLimits(lanes=lanes) for lanes in (8, 0))


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def text(limits: DeviceLimits, style: Style = Style.SOFTWARE_VULKAN) -> str:
    graph, _ = graph_of(MatMul(), numbers(40, 12), numbers(12, 33))
    return "\n".join(plan_graph(graph, limits, style).kernels)


def test_lanes_are_told_rows_only_where_that_is_known_to_work() -> None:
    assert "subgroupShuffle(v" in text(WITH)
    assert "@workgroup_size(8)" in text(WITH)
    assert "subgroupShuffle" not in text(WITHOUT)
    assert "subgroupShuffle" not in text(WITH, Style.GPU)


def test_neighbours_are_read_and_written_together() -> None:
    graph, _ = graph_of(MatMul(), numbers(40, 12), numbers(12, 32))
    (kernel,) = plan_graph(graph, WITH, Style.SOFTWARE_VULKAN).kernels
    assert kernel.count("array<vec4<f32>>") == 3


def test_a_lane_of_a_large_contraction_computes_two_vec4s() -> None:
    for rows, vec4s in ((64, 2), (8, 1)):
        graph, _ = graph_of(MatMul(), numbers(rows, 1024), numbers(1024, 1024))
        (kernel,) = plan_graph(graph, WITH, Style.SOFTWARE_VULKAN).kernels
        assert kernel.count("var c0_") == vec4s


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "tile"),
    [
        (50, 499, 400, SubgroupTile(13, 8, 1, 1)),
        (50, 500, 400, SubgroupTile(25, 8, 4, 1)),  # 10 million products
        (150, 499, 400, SubgroupTile(30, 8, 1, 1)),
        (150, 500, 400, SubgroupTile(50, 8, 4, 1)),  # 30 million, of an odd number of eights
        (120, 500, 512, SubgroupTile(30, 8, 4, 2)),
        (120, 500, 508, SubgroupTile(60, 8, 4, 1)),
        (17, 9, 40, SubgroupTile(9, 8, 3, 1)),
        (16, 2, 40, SubgroupTile(16, 8, 2, 1)),
    ],
)
def test_the_more_there_is_to_do_the_more_each_lane_does(
    rows: int, terms: int, columns: int, tile: SubgroupTile
) -> None:
    build = Builder()
    shapes = ((rows, terms), (terms, columns))
    inputs = [build.add(Input(f"x{n}", DType.F32, each)) for n, each in enumerate(shapes)]
    product = named_contraction(MatMul(), *inputs)
    assert subgroup_tile_of(product, Target(WITH, Style.SOFTWARE_VULKAN)) == tile
    assert subgroup_tile_of(product, Target(WITHOUT, Style.SOFTWARE_VULKAN)) is None
    assert subgroup_tile_of(product, Target(WITH, Style.GPU)) is None


def residual(columns: int) -> tuple[Graph, dict[str, Array]]:
    feeds = {"x": numbers(512, 520), "w": numbers(520, columns), "y": numbers(512, columns)}
    build = Builder()
    x, w, y = (build.add(Input(name, DType.F32, each.shape)) for name, each in feeds.items())
    return build.graph({"z": build.add(Add(), build.add(MatMul(), x, w), y)}), feeds


@pytest.mark.parametrize(("columns", "is_looped"), [(128, False), (127, True)])
def test_what_reads_and_writes_one_by_one_is_in_a_loop(columns: int, *, is_looped: bool) -> None:
    (kernel,) = plan_graph(residual(columns)[0], WITH, Style.SOFTWARE_VULKAN).kernels
    assert ("var sums" in kernel) == is_looped


@pytest.mark.parametrize(("stride", "ends"), [(1, False), (2, True), (3, False)])
def test_a_phase_of_a_strided_gradient_takes_only_its_taps(stride: int, *, ends: bool) -> None:
    op = ConvInputGradient((stride, stride), (1, 1), (1, 1), 1, (12, 12))
    size = -(-12 // stride)
    graph, _ = graph_of(op, numbers(8, 6, 3, 3), numbers(2, 8, size, size))
    (kernel,) = plan_graph(graph, WITH, Style.SOFTWARE_VULKAN).kernels
    assert ("{ break; }" in kernel) == ends


@pytest.mark.adapter
class TestAdapter:
    """Tests that need an adapter; without shuffles, the other kernel is tested twice."""

    @pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 15, 17, 33])
    @pytest.mark.parametrize("columns", [1, 31, 36])
    def test_any_number_of_rows_and_columns(self, rows: int, columns: int, device: Device) -> None:
        graph, feeds = graph_of(MatMul(), numbers(rows, 13), numbers(13, columns))
        assert_as_reference(graph, feeds, device)

    @pytest.mark.parametrize("rows", [16, 48, 60, 62])
    def test_rows_that_lie_next_to_each_other(self, rows: int, device: Device) -> None:
        """Of one workgroup and of several, the last of them full or not."""
        op = MatMul(transpose_left=True)
        graph, feeds = graph_of(op, numbers(33, rows), numbers(33, 64))
        assert_as_reference(graph, feeds, device)

    @pytest.mark.parametrize("columns", [500, 504])
    def test_large_tiles(self, columns: int, device: Device) -> None:
        graph, feeds = graph_of(MatMul(), numbers(400, 520), numbers(520, columns))
        assert_as_reference(graph, feeds, device)

    @pytest.mark.parametrize("columns", effort([128], [127, 128]))
    def test_large_tiles_with_a_residual(self, columns: int, device: Device) -> None:
        graph, feeds = residual(columns)
        assert_as_reference(graph, feeds, device)

    def test_a_large_convolution_of_odd_sizes(self, device: Device) -> None:
        op = Conv((1, 1), (1, 1), (1, 1), 1)
        graph, feeds = graph_of(op, numbers(9, 40, 13, 16), numbers(45, 40, 3, 3))
        assert_as_reference(graph, feeds, device)

    def test_more_workgroups_than_a_dispatch_is_wide(self, device: Device) -> None:
        few = replace(device.limits, workgroups=3)
        graph, feeds = graph_of(MatMul(), numbers(70, 12), numbers(12, 200))
        assert_as_reference(graph, feeds, device, limits=few)

    @pytest.mark.parametrize("size", [4, 5, 8])
    def test_without_shuffles(self, size: int, device: Device) -> None:
        plain = replace(device.limits, lanes=0)
        geometry = ((2, 2), (1, 1), (1, 1), 2)
        graph, feeds = graph_of(Conv(*geometry), numbers(2, 4, size, size), numbers(6, 2, 3, 3))
        assert_as_reference(graph, feeds, device, limits=plain)
        half = (size - 1) // 2 + 1
        to_x = ConvInputGradient(*geometry, (size, size))
        graph, feeds = graph_of(to_x, numbers(6, 2, 3, 3), numbers(2, 6, half, half))
        assert_as_reference(graph, feeds, device, limits=plain)
