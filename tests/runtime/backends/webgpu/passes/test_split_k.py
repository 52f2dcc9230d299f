"""Split-K: in how many parts a contraction is summed."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input, MatMul
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import (
    named_contraction,
    tiling_of,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    SQUARE,
    WIDE,
    workgroup_count,
)
from meganeura_runtime.backends.webgpu.config.kernel_config import Tile
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial
from meganeura_runtime.backends.webgpu.passes.split_k import (
    MOST_PRODUCTS,
    split_k,
    split_k_of_tiles,
)

SHAPES = ((6, (2, 3)), (12, (3, 4)))
GPU = Target(DeviceLimits())
SOFTWARE = Target(DeviceLimits(), Style.SOFTWARE_VULKAN)


def product_of(*shapes: tuple[int, ...]) -> Contraction:
    build = Builder()
    inputs = [build.add(Input(f"x{n}", DType.F32, each)) for n, each in enumerate(shapes)]
    return named_contraction(MatMul(), *inputs)


@pytest.mark.parametrize(
    ("tile", "tiles", "terms", "parts"),
    [
        (SQUARE, 319, 2048, 2),  # three would leave a rest, for which two are near enough
        (SQUARE, 320, 2048, 1),
        (WIDE, 599, 2048, 2),
        (WIDE, 600, 2048, 1),
        (SQUARE, 300, 1550, 2),
        (SQUARE, 300, 16 * 97, 2),
        (SQUARE, 1, 64, 1),
        (SQUARE, 1, 128, 2),
        (SQUARE, 1, 16 * 1024, 256),
        (SQUARE, 288, 1024, 2),
        (SQUARE, 288, 1023, 1),
    ],
)
def test_tiles_that_would_leave_a_gpu_idle_are_summed_in_parts(
    tile: Tile, tiles: int, terms: int, parts: int
) -> None:
    product = product_of((tiles, tile.rows, terms), (tiles, terms, tile.columns))
    assert workgroup_count(tile, product) == tiles
    assert split_k_of_tiles(product, tile, GPU) == parts


@pytest.mark.parametrize(("terms", "parts"), [(1550, 2), (16 * 97, 3), (16 * 96, 3)])
def test_parts_are_of_whole_steps_where_terms_are_taken_together(terms: int, parts: int) -> None:
    """Of 97 steps there are no even parts; of 1550 terms there are no whole steps."""
    product = product_of((300, SQUARE.rows, terms), (300, terms, SQUARE.columns))
    assert split_k_of_tiles(replace(product, together=(0,)), SQUARE, GPU) == parts


@pytest.mark.parametrize("over", [0, 1, MOST_PRODUCTS, MOST_PRODUCTS + 1])
def test_no_loop_of_a_kernel_is_longer_than_drivers_allow(over: int) -> None:
    """Even where the result alone has work for all cores, as that of 512 x 512 elements has."""
    at_once = 4
    iterations = MOST_PRODUCTS + over
    product = product_of((512, iterations * at_once), (iterations * at_once, 512))
    assert tiling_of(product, SOFTWARE).terms == at_once
    parts = split_k(product, SOFTWARE)
    assert iterations <= parts * MOST_PRODUCTS
    assert (parts == 1) == (over == 0)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_the_reference_of_parts_gives_as_many_whose_sum_is_the_whole(parts: int) -> None:
    a, b = (np.arange(size, dtype=np.float32).reshape(shape) for size, shape in SHAPES)
    op = SplitKPartial(MatMul(), parts)
    found = op.evaluate(a, b)
    types = (TensorType(DType.F32, shape) for _, shape in SHAPES)
    (expected,) = op.result_types(Facts(), *types)
    assert found.shape == expected.shape == (parts, 2, 4)
    np.testing.assert_array_equal(found.sum(0), a @ b)
