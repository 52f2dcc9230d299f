"""Positions in the result of the elements of a tile of sums, and their common guards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Element
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import OutputCoordinate
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    BoundsCheck,
    Index,
    ravel,
    unravel,
)


def shared_out(tile: Tile, lane: Affine) -> tuple[Affine, Affine]:
    """The lane's place down and across the tile: blocks of 4 x 8 lanes read the same few words."""
    down, across = tile.rows // tile.rows_each, tile.columns // tile.columns_each
    few, many = min(4, down), min(8, across)
    outer, middle, inner, last = unravel(lane, (down // few, across // many, few, many))
    return outer * few + inner, middle * many + last


@dataclass(frozen=True, slots=True)
class LaneResults:
    """The elements of a lane's sums, at rows and columns that `coordinate` puts together."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    coordinate: Callable[[Index, Index], OutputCoordinate]
    tile: Tile
    row: Affine
    column: Affine
    down: Affine
    across: Affine
    sums: str = "c"

    def elements(self, of: Value, exists: Sequence[str]) -> list[list[Element]]:
        """The elements of the value that the sums are, those together that exist together."""
        shape = concrete_shape(of.type.shape)
        found: list[list[Element]] = []
        for i in range(self.tile.rows_each):
            above, row = self.at_row(i)
            for j in range(self.tile.columns_each // 4):
                for beside, columns, first in self._columns(j):
                    group: list[Element] = []
                    for v, column in enumerate(columns, first):
                        at = self.coordinate(row, column)
                        registers = {of.id: f"{self.sums}{i}_{j}.{'xyzw'[v]}"}
                        guards = (*at.guards, above, beside)
                        position = ravel(at.index, shape)
                        group.append(Element(position, registers, exists, guards))
                    found.extend(together(group))
        return found

    def at_row(self, i: int) -> tuple[BoundsCheck, Index]:
        """The i-th row of a lane, and whether it exists."""
        down = self.tile.rows // self.tile.rows_each
        vec4 = self.row * (self.tile.rows // 4) + self.down + i // 4 * down
        total = prod(self.rows)
        if total % 4 == 0:
            guard = BoundsCheck(vec4, 1, total // 4)
            return guard, unravel(guard.index * 4 + i % 4, self.rows)
        guard = BoundsCheck(vec4 * 4 + i % 4, 1, total)
        return guard, unravel(guard.index, self.rows)

    def _columns(self, j: int) -> list[tuple[BoundsCheck, list[Index], int]]:
        across = self.tile.columns // self.tile.columns_each
        vec4 = self.column * (self.tile.columns // 4) + self.across + j * across
        sizes = self.columns
        if prod(sizes) % 4 == 0:
            guard = BoundsCheck(vec4, 1, prod(sizes) // 4)
            return [(guard, [unravel(guard.index * 4 + v, sizes) for v in range(4)], 0)]
        guards = [BoundsCheck(vec4 * 4 + v, 1, prod(sizes)) for v in range(4)]
        return [(guard, [unravel(guard.index, sizes)], v) for v, guard in enumerate(guards)]


def together(group: list[Element]) -> list[list[Element]]:
    """The elements in one, if they exist under the same conditions."""
    same = all(set(one.guards) == set(group[0].guards) for one in group)
    return [group] if same else [[one] for one in group]
