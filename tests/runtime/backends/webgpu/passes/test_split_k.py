"""Split-K: in how many parts a contraction is summed."""

import pytest

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input, MatMul
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import (
    named_contraction,
    tiling_of,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.passes.split_k import MOST_PRODUCTS, split_k

SOFTWARE = Target(DeviceLimits(), Style.SOFTWARE_VULKAN)


@pytest.mark.parametrize("over", [0, 1, MOST_PRODUCTS, MOST_PRODUCTS + 1])
def test_no_loop_of_a_kernel_is_longer_than_drivers_allow(over: int) -> None:
    """Even where the result alone has work for all cores, as that of 512 x 512 elements has."""
    at_once = 4
    rounds = MOST_PRODUCTS + over
    build = Builder()
    shapes = ((512, rounds * at_once), (rounds * at_once, 512))
    inputs = [build.add(Input(f"x{n}", DType.F32, each)) for n, each in enumerate(shapes)]
    product = named_contraction(MatMul(), *inputs)
    assert tiling_of(product, SOFTWARE).terms == at_once
    parts = split_k(product, SOFTWARE)
    assert rounds <= parts * MOST_PRODUCTS
    assert (parts == 1) == (over == 0)
