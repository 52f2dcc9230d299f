"""Split-K: in how many parts a contraction is summed, so that small results fill a device."""

from math import prod

from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import tiling_of
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import subgroup_tile_of
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    WIDE,
    Tile,
    tile_of,
    workgroup_count,
)
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.passes.split_reduction import divisor_near

MOST_PRODUCTS = 60_000
"""Iterations of all loops of a contraction together, just below the cap of old Mesa drivers."""
BUSY_WORKGROUPS = 288
"""Workgroups of a tiled kernel that keep a large GPU busy."""
EVEN_WORKGROUPS = 1200
"""Workgroups that a large GPU is done with at about the same time everywhere."""
FEW_WORKGROUPS, FEW_WIDE = 320, 600
"""Workgroups that leave parts of a large GPU idle for long; of wide tiles it runs fewer at once."""
LONG_PART = 512
"""Terms for which the work of a part is large against the memory it needs."""
BUSY_GROUPS = 8
"""Workgroups that keep a CPU busy."""
BUSY_INVOCATIONS = {Style.GPU: 8192, Style.SOFTWARE_VULKAN: 32}
FEWEST_TERMS = {Style.GPU: 64, Style.SOFTWARE_VULKAN: 512}
"""Terms for which a part is worth its place in memory."""


def split_k(whole: Contraction, target: Target) -> int:
    """Returns the number of parts of the longest axis of the terms; 1 if none are needed."""
    config = target.configs.get(whole.name)
    if config is not None:
        return config.split_k
    tile = tile_of(whole, target)
    if tile is not None:
        return split_k_of_tiles(whole, tile, target)
    shuffle = subgroup_tile_of(whole, target)
    if shuffle is not None:
        return _parts_of_groups(whole, prod(shuffle.grid(whole)), shuffle.terms)
    longest = max(whole.terms)
    tiling = tiling_of(whole, target)
    rows = -(-prod(whole.rows) // tiling.rows)
    columns = -(-prod(whole.columns) // tiling.columns)
    invocations = prod(whole.batch) * rows * columns
    wanted = min(
        BUSY_INVOCATIONS[target.style] // invocations,
        whole.count // FEWEST_TERMS[target.style],
        longest,
    )
    parts = max(wanted, -(-_iterations(whole.terms, tiling.terms) // MOST_PRODUCTS), 1)
    return divisor_near(longest, parts)


def split_k_of_tiles(whole: Contraction, tile: Tile, target: Target) -> int:
    """Returns the number of parts that keeps all workgroups busy, in whole steps if possible."""
    longest, workgroups = max(whole.terms), workgroup_count(tile, whole)
    wanted = min(BUSY_WORKGROUPS // workgroups, whole.count // FEWEST_TERMS[target.style])
    if workgroups < (FEW_WIDE if tile == WIDE else FEW_WORKGROUPS):
        wanted = max(wanted, min(EVEN_WORKGROUPS // workgroups, whole.count // LONG_PART))
    wanted = min(wanted, longest)
    if wanted < 2:
        return 1
    stepped = whole.together == (whole.terms.index(longest),) and longest % tile.terms == 0
    units = longest // tile.terms if stepped else longest
    even = max(parts for parts in range(1, wanted + 1) if units % parts == 0)
    return even if 2 * even >= wanted or even == units else wanted


def _parts_of_groups(whole: Contraction, groups: int, at_once: int) -> int:
    """Returns the number of parts that gives every core of a CPU something to do."""
    longest = max(whole.terms)
    wanted = min(BUSY_GROUPS // groups, whole.count // FEWEST_TERMS[Style.SOFTWARE_VULKAN], longest)
    least = -(-_iterations(whole.terms, at_once) // MOST_PRODUCTS)
    return divisor_near(longest, max(wanted, least, 1))


def _iterations(terms: tuple[int, ...], at_once: int) -> int:
    """Returns the number of iterations of the loops over the terms, all together."""
    runs = (prod(terms[: depth + 1]) for depth in range(len(terms) - 1))
    return sum(runs) + prod(terms) // at_once
