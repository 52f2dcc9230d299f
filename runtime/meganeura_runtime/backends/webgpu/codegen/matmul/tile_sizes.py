"""Tile sizes: how the workgroups of a GPU share out a contraction, as data, and the choice."""

from collections.abc import Mapping
from math import prod

from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.config.kernel_config import Tile
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

FEWEST = 16
"""Rows, columns and terms below which most of a tile would be idle."""
MANY_TERMS = 1 << 10
"""Terms that lanes without a common tile would read again for every row and column."""
ENOUGH_WORKGROUPS = 1024
"""Workgroups that keep a large GPU busy to the end; half as many do if there are `MANY_TERMS`."""
FEW_PRODUCTS = 1 << 21
"""Products that a GPU computes in less time than its driver takes to compile them written out."""
SHORT = 256
"""Terms of a product of matrices that is over before a large tile is worth its registers."""


WIDE = Tile(64, 128, 16, 8, 8)
SQUARE = Tile(64, 64, 16, 8, 4)
FLAT = Tile(32, 64, 16, 4, 4)
TALL = Tile(64, 32, 16, 4, 4)
SMALL = Tile(32, 32, 16, 4, 4)
SPEEDS = {WIDE: 1.0, SQUARE: 0.95, FLAT: 0.75, TALL: 0.75, SMALL: 0.6}
"""Every tile, and how fast it is where nothing of it is wasted; measured on an H200."""
MATRIX_SPEEDS = {
    Tile(128, 128, 32, 8, 16): 1.0,
    Tile(64, 128, 32, 4, 16): 0.75,
    Tile(64, 64, 32, 4, 8): 0.5,
}
"""The same of matrix units."""
MATRIX_GAP, SUMS_GAP = 8, 4
"""Unused elements at the end of each row of a factor and of sums, against bank conflicts."""


def tile_of(contraction: Contraction, target: Target) -> Tile | None:
    """The tile that was found to be fastest, or else the one that is expected to be.

    None where the result or the sums are too small, or a kernel without tiles compiles sooner.
    """
    config = target.configs.get(contraction.name)
    if config is not None:
        return config.tile
    if target.style is not Style.GPU or not _is_large(contraction):
        return None
    if target.fusing.quick and is_short(contraction):
        return None
    limits = target.limits
    speeds = SPEEDS if limits.matrix_units is None else MATRIX_SPEEDS
    fitting = [
        tile
        for tile in speeds
        if (tile.bytes if speeds is SPEEDS else matrix_bytes(tile)) <= limits.workgroup_bytes
        and tile.lanes <= limits.invocations
        and (tile is not WIDE or _is_wide(contraction))
    ]
    return min(fitting, key=lambda tile: _cost(tile, contraction, speeds), default=None)


def matrix_bytes(tile: Tile) -> int:
    """Workgroup memory for matrix units, in bytes: both factors in f16, and a band of sums."""
    factors = sum(
        size * tile.terms + MATRIX_GAP * max(size, tile.terms) for size in (tile.rows, tile.columns)
    )
    return 2 * factors + 4 * tile.rows * (4 * tile.columns // tile.columns_each + SUMS_GAP)


def workgroup_count(tile: Tile, contraction: Contraction) -> int:
    """Workgroups that a contraction takes in tiles of this size."""
    rows = -(-prod(contraction.rows) // tile.rows)
    columns = -(-prod(contraction.columns) // tile.columns)
    return prod(contraction.batch) * rows * columns


def is_short(contraction: Contraction) -> bool:
    """True if the time to compile its kernel is most of what it costs."""
    sums = prod(contraction.batch) * prod(contraction.rows) * prod(contraction.columns)
    return sums * contraction.count <= FEW_PRODUCTS


def _is_wide(contraction: Contraction) -> bool:
    """True if there is work enough for large tiles, in steps enough to get going."""
    plain = len(contraction.terms) == 1
    short = plain and contraction.count <= SHORT
    enough = ENOUGH_WORKGROUPS // 2 if contraction.count >= MANY_TERMS else ENOUGH_WORKGROUPS
    return not short and workgroup_count(WIDE, contraction) >= enough


def _is_large(contraction: Contraction) -> bool:
    """True if a tile is mostly used, or the sums are so long that they need many lanes anyway."""
    short, long = sorted((prod(contraction.rows), prod(contraction.columns)))
    if short > 1 and contraction.count >= MANY_TERMS:
        return long >= FEWEST
    return min(short, contraction.count) >= FEWEST


def _cost(tile: Tile, contraction: Contraction, speeds: Mapping[Tile, float]) -> float:
    """Returns the cost of a tile: all that it computes, used or not, by its speed."""
    return workgroup_count(tile, contraction) * tile.rows * tile.columns / speeds[tile]
