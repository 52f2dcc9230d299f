"""How the workgroups of a GPU share out a contraction: sizes as data, and the choice among them."""

from dataclasses import dataclass
from math import prod

from meganeura_runtime.kernels.contraction import Contraction
from meganeura_runtime.kernels.limits import Style, Target

FEWEST = 16
"""Rows, columns and terms below which most of a tile would be idle."""
ENOUGH_WORKGROUPS = 512
"""Workgroups that keep a large GPU busy to the end."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What one workgroup computes, what it holds of the factors at once, and each lane's part."""

    rows: int
    columns: int
    terms: int
    rows_each: int
    columns_each: int

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return (self.rows // self.rows_each) * (self.columns // self.columns_each)

    @property
    def bytes(self) -> int:
        """Workgroup memory, the gaps that keep lanes apart included."""
        return 4 * self.terms * (self.rows + self.columns + 8)

    def count(self, contraction: Contraction) -> int:
        """Workgroups that it takes."""
        rows = -(-prod(contraction.rows) // self.rows)
        columns = -(-prod(contraction.columns) // self.columns)
        return prod(contraction.batch) * rows * columns


WIDE = Tile(64, 128, 16, 8, 8)
SQUARE = Tile(64, 64, 16, 8, 4)
FLAT = Tile(32, 64, 16, 4, 4)
TALL = Tile(64, 32, 16, 4, 4)
SMALL = Tile(32, 32, 16, 4, 4)
SPEEDS = {WIDE: 1.0, SQUARE: 0.95, FLAT: 0.75, TALL: 0.75, SMALL: 0.6}
"""Every tile, and how fast it is where nothing of it is wasted; measured on an H200."""


def tile_of(contraction: Contraction, target: Target) -> Tile | None:
    """The tile that is expected to be fastest; none where the result or the sums are too small."""
    least = min(prod(contraction.rows), prod(contraction.columns), contraction.count)
    if target.style is not Style.GPU or least < FEWEST:
        return None
    limits = target.limits
    fitting = [
        tile
        for tile in SPEEDS
        if tile.bytes <= limits.workgroup_bytes
        and tile.lanes <= limits.invocations
        and (tile is not WIDE or tile.count(contraction) >= ENOUGH_WORKGROUPS)
    ]
    return min(fitting, key=lambda tile: _cost(tile, contraction), default=None)


def _cost(tile: Tile, contraction: Contraction) -> float:
    """What a tile computes, used or not, by its speed."""
    return tile.count(contraction) * tile.rows * tile.columns / SPEEDS[tile]
