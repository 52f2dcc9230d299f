"""Tiled kernels of large contractions: every tile, at sizes that leave its edges ragged."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Op
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, Input, MatMul
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.matmul import tile_sizes
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import CONTRACTIONS
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    FLAT,
    SMALL,
    SPEEDS,
    SQUARE,
    TALL,
    WIDE,
    Tile,
    tile_of,
)
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.effort import effort
from tests.runtime.running import assert_as_reference, graph_of

pytestmark = pytest.mark.adapter


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tile_for(op: Op, *operands: Array) -> Tile | None:
    value = graph_of(op, *operands)[0].outputs["y"]
    return tile_of(CONTRACTIONS[type(op)](op, *value.operands), Target(DeviceLimits(), Style.GPU))


@pytest.mark.parametrize("tile", SPEEDS, ids=str)
def test_every_lane_fetches_whole_vec4s_and_tiles_fit_the_least_adapter(tile: Tile) -> None:
    assert tile.rows * tile.terms % (4 * tile.lanes) == 0
    assert tile.columns * tile.terms % (4 * tile.lanes) == 0
    assert tile.bytes <= DeviceLimits().workgroup_bytes
    assert tile.lanes <= DeviceLimits().invocations


def chosen(rows: int, terms: int, columns: int, target: Target) -> Tile | None:
    """The tile of a product of matrices."""
    build = Builder()
    a, b = (build.add(Input(name, DType.F32, shape))
            for name, shape in (("a", (rows, terms)), ("b", (terms, columns))))  # fmt: skip
    op = MatMul()
    return tile_of(CONTRACTIONS[MatMul](op, *build.add(op, a, b).operands), target)


@pytest.mark.parametrize(
    ("sizes", "is_tiled"),
    [
        ((16, 16, 16), True),
        ((15, 16, 16), False),
        ((16, 15, 16), False),
        ((16, 16, 15), False),
        ((15, 1023, 900), False),
        ((2, 1024, 16), True),
        ((16, 1024, 2), True),
        ((2, 1024, 15), False),
        ((2, 1023, 16), False),
        ((1, 1024, 900), False),
    ],
)
def test_a_product_of_few_rows_and_terms_has_no_tile(
    sizes: tuple[int, int, int], *, is_tiled: bool
) -> None:
    """Unless there are so many terms that they need many lanes anyway."""
    assert (chosen(*sizes, Target(DeviceLimits(), Style.GPU)) is not None) == is_tiled
    assert chosen(*sizes, Target(DeviceLimits(), Style.SOFTWARE_VULKAN)) is None


@pytest.mark.parametrize(
    ("across", "down", "terms", "is_wide"),
    [
        (32, 32, 257, True),
        (32, 32, 256, False),
        (31, 33, 257, False),
        (16, 32, 1024, True),
        (16, 32, 1023, False),
        (7, 73, 1024, False),
    ],
)
def test_the_widest_tile_is_for_work_enough(
    across: int, down: int, terms: int, *, is_wide: bool
) -> None:
    """As many workgroups as keep a GPU busy, of which each takes its time."""
    target = Target(DeviceLimits(), Style.GPU)
    found = chosen(down * WIDE.rows, terms, across * WIDE.columns, target)
    assert (found == WIDE) == is_wide


@pytest.mark.parametrize(("terms", "is_short"), [(127, True), (128, True), (129, False)])
def test_a_kernel_that_is_to_compile_soon_has_a_tile_where_it_takes_long(
    terms: int, *, is_short: bool
) -> None:
    """Of 2^21 products at most it is over before a tile is worth compiling."""
    for quick, tile in ((False, SQUARE), (True, None if is_short else SQUARE)):
        target = Target(DeviceLimits(), Style.GPU, fusing=FusionConfig(quick=quick))
        assert chosen(128, terms, 128, target) == tile


@pytest.mark.parametrize("workgroup_bytes", [SMALL.bytes - 1, SMALL.bytes, SQUARE.bytes - 1])
def test_a_tile_fits_into_the_memory_of_a_workgroup(workgroup_bytes: int) -> None:
    limits = DeviceLimits(workgroup_bytes=workgroup_bytes)
    found = chosen(128, 64, 128, Target(limits, Style.GPU))
    if workgroup_bytes < SMALL.bytes:
        assert found is None
    elif workgroup_bytes == SMALL.bytes:
        assert found == SMALL
    else:
        assert found is not None
        assert SMALL.bytes < found.bytes <= workgroup_bytes


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "tile"),
    [
        (41, 127, 129, SQUARE),
        (129, 41, 127, SQUARE),
        (128, 64, 128, SQUARE),
        (17, 33, 41, FLAT),
        (127, 129, 31, TALL),
        (16, 16, 16, SMALL),
        (68, 20, 132, FLAT),
    ],
)
def test_matrices(rows: int, terms: int, columns: int, tile: Tile, device: Device) -> None:
    a, b = numbers(rows, terms), numbers(terms, columns)
    assert tile_for(MatMul(), a, b) == tile
    assert_as_reference(*graph_of(MatMul(), a, b), device, Style.GPU)


@pytest.mark.parametrize("sizes", [(17, 33, 41), *effort([], [(127, 129, 31), (16, 16, 16)])])
def test_many_products_are_written_out(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    """A loop of few terms an iteration is for kernels that take longer to compile than to run."""
    rows, terms, columns = sizes
    graph, feeds = graph_of(MatMul(), numbers(rows, terms), numbers(terms, columns))

    def in_iterations() -> bool:
        return any("k++" in each for each in plan_graph(graph, DeviceLimits()).kernels)

    assert in_iterations()
    monkeypatch.setattr(tile_sizes, "FEW_PRODUCTS", 0)
    assert not in_iterations()
    assert_as_reference(graph, feeds, device, Style.GPU)


@pytest.mark.parametrize(
    "op",
    [
        MatMul(transpose_left=True),
        MatMul(transpose_right=True),
        MatMul(transpose_left=True, transpose_right=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [36, 41])
def test_transposed_matrices(op: MatMul, size: int, device: Device) -> None:
    a = numbers(20, size) if op.transpose_left else numbers(size, 20)
    b = numbers(size, 20) if op.transpose_right else numbers(20, size)
    assert_as_reference(*graph_of(op, a, b), device, Style.GPU)


def test_a_batch_of_many_matrices(device: Device) -> None:
    a, b = numbers(512, 64, 17), numbers(512, 17, 100)
    assert tile_for(MatMul(), a, b) == SQUARE
    assert_as_reference(*graph_of(MatMul(), a, b), device, Style.GPU)


def test_many_pixels(device: Device) -> None:
    op = Conv((1, 1), (1, 1), (1, 1), 1)
    x, w = numbers(8, 2, 127, 129), numbers(64, 2, 3, 3)
    assert tile_for(op, x, w) == WIDE
    assert_as_reference(*graph_of(op, x, w), device, Style.GPU)


def test_more_workgroups_than_one_dimension_holds(device: Device) -> None:
    a, b = numbers(300, 40), numbers(40, 200)
    few = DeviceLimits(workgroups=7)
    assert_as_reference(*graph_of(MatMul(), a, b), device, Style.GPU, few)


@pytest.mark.parametrize(
    ("x", "w", "geometry"),
    [
        ((3, 34, 9, 17), (40, 17, 1, 1), ((1, 1), (0, 0), (1, 1), 2)),
        ((2, 16, 11, 11), (20, 16, 2, 3), ((2, 1), (1, 0), (1, 2), 1)),
        ((2, 18, 127), (24, 18, 3), ((2,), (1,), (1,), 1)),
        *effort(
            [],
            [
                ((1, 16, 14, 14), (64, 16, 3, 3), ((1, 1), (1, 1), (1, 1), 1)),
                ((1, 3, 41, 41), (17, 3, 7, 7), ((2, 2), (3, 3), (1, 1), 1)),
                ((2, 16, 12, 12), (16, 16, 3, 3), ((2, 2), (1, 1), (1, 1), 1)),
            ],
        ),
    ],
)
def test_convolutions(
    x: tuple[int, ...],
    w: tuple[int, ...],
    geometry: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
    device: Device,
) -> None:
    forward, feeds = graph_of(Conv(*geometry), numbers(*x), numbers(*w))
    assert tile_for(Conv(*geometry), numbers(*x), numbers(*w)) is not None
    assert_as_reference(forward, feeds, device, Style.GPU)
    dy = numbers(*(int(str(size)) for size in forward.outputs["y"].type.shape))
    to_x: Op = ConvInputGradient(*geometry, x[2:])
    assert_as_reference(*graph_of(to_x, numbers(*w), dy), device, Style.GPU)
    to_w: Op = ConvWeightGradient(*geometry, w[2:])
    assert_as_reference(*graph_of(to_w, numbers(*x), dy), device, Style.GPU)


@pytest.mark.parametrize(
    ("x", "w", "stride"),
    [
        ((2, 32, 8, 8), (40, 32, 2, 2), 2),
        ((2, 32, 64), (40, 32, 4), 1),
        ((1, 32, 20, 20), (40, 32, 5, 5), 1),
    ],
)
def test_what_is_aligned_at_the_first_tap_need_not_be_so_at_others(
    x: tuple[int, ...], w: tuple[int, ...], stride: int, device: Device
) -> None:
    """A channel's first of four weights is the first of a vec4, its second is not.

    Nor are four pixels of a row that begin one tap later.
    """
    rank = len(x) - 2
    op = Conv((stride,) * rank, (0,) * rank, (1,) * rank, 1)
    assert tile_for(op, numbers(*x), numbers(*w)) is not None
    assert_as_reference(*graph_of(op, numbers(*x), numbers(*w)), device, Style.GPU)


def test_a_step_over_several_taps_counts_if_any_reaches_a_pixel(device: Device) -> None:
    """Of 20 channels and 3 taps, 16 terms are a step, whose first may be the tap that does not."""
    to_x = ConvInputGradient((2,), (2,), (1,), 1, (32,))
    w, dy = numbers(20, 16, 5), numbers(1, 20, 16)
    assert tile_for(to_x, w, dy) is not None
    assert_as_reference(*graph_of(to_x, w, dy), device, Style.GPU)


@pytest.mark.parametrize("pixels", [16, 128])
def test_taps_that_do_not_reach_a_pixel_are_skipped(pixels: int) -> None:
    """Of nine taps of stride 2, four reach a pixel at most; the others are no work."""
    op = ConvInputGradient((2, 2), (1, 1), (1, 1), 1, (pixels, pixels))
    dy = numbers(2, 64, pixels // 2, pixels // 2)
    graph, _ = graph_of(op, numbers(64, 16, 3, 3), dy)
    plan = plan_graph(graph, DeviceLimits(), Style.GPU)
    text = next(text for text in plan.kernels if "let x0_0" in text)
    products = text.index("let x0_0")
    assert text.rindex("if (", 0, products) > text.rindex("workgroupBarrier", 0, products)
    assert text.index("workgroupBarrier", products) > text.index("}", products)
