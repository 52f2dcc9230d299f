"""Multiplication in the workgroup of a tile: lane by lane in f32, or by matrix units."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import product

from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.half_tiles import TILES, HalfTiles
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    GAP,
    SharedMemoryBank,
    SharedMemoryTile,
    Steps,
    multiply,
    multiply_in_iterations,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matrices import (
    Matrices,
    Square,
    matrices_of,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    MATRIX_GAP,
    SUMS_GAP,
    Tile,
    is_short,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.config.limits import MatrixUnits


class TileCore(ABC):
    """The inner part of a tiled kernel. Its sums end in registers `c{i}_{j}` of four columns."""

    gap: int = GAP
    """Unused elements behind each line of a factor in the workgroup's memory."""
    follows_runs: bool = False
    """True if what a lane fetches of a factor at once lies side by side there."""
    widths: Sequence[int] = (4,)
    """Numbers of neighbours that a lane may fetch at once, the best first."""

    @abstractmethod
    def shared(self) -> Sequence[str]:
        """Declarations of the workgroup's memory, where the factors are `left` and `right`."""

    @abstractmethod
    def begin(self, emitter: WgslEmitter) -> None:
        """Declare sums of 0. Later a lane's first row is `down`, its first column `across`."""

    def staged(self, sides: Sequence[SharedMemoryTile]) -> None:
        """Learn where each lane puts what it fetches of both factors, before all that follows."""
        del sides

    def fetched(
        self, emitter: WgslEmitter, side: SharedMemoryTile, steps: Steps, step: Index
    ) -> Sequence[str]:
        """Read what a lane fetches of a factor in a step; returns it for `left0`, `left1` ..."""
        del steps
        return [emitter.value(one) for one in side.fetch(step)]

    @abstractmethod
    def fill(self, emitter: WgslEmitter, side: SharedMemoryTile, slots: Sequence[str]) -> None:
        """Put what a lane has fetched of a factor, `left0`, `left1` ..., into its slots."""

    @abstractmethod
    def products(self, emitter: WgslEmitter) -> None:
        """Add all products of what the workgroup holds."""

    @abstractmethod
    def end(self, emitter: WgslEmitter) -> None:
        """Bring the sums to the lanes that they belong to, after the last barrier of the steps."""


class LaneCore(TileCore):
    """Each lane multiplies its rows and columns, in f32."""

    def __init__(self, tile: Tile, contraction: Contraction) -> None:
        self._tile = tile
        self._banks = SharedMemoryBank("left", tile.rows), SharedMemoryBank("right", tile.columns)
        self._multiply: Callable[[WgslEmitter, Tile, SharedMemoryBank, SharedMemoryBank], None] = (
            multiply_in_iterations if is_short(contraction) else multiply
        )

    def shared(self) -> Sequence[str]:
        """Returns one array of each factor."""
        return [
            f"var<workgroup> {bank.name}: array<f32, {self._tile.terms * bank.pitch}>;"
            for bank in self._banks
        ]

    def begin(self, emitter: WgslEmitter) -> None:
        """Declare vectors of sums."""
        for i in range(self._tile.rows_each):
            for j in range(self._tile.columns_each // 4):
                emitter.line(f"var c{i}_{j} = vec4<f32>();")

    def fill(self, emitter: WgslEmitter, side: SharedMemoryTile, slots: Sequence[str]) -> None:
        """Copy each element."""
        name = side.side.name
        for number, slot in enumerate(slots):
            emitter.line(f"{name}[{slot}] = {name}{number};")

    def products(self, emitter: WgslEmitter) -> None:
        """Add the products of the lane's rows and columns."""
        self._multiply(emitter, self._tile, *self._banks)

    def end(self, emitter: WgslEmitter) -> None:
        """Do nothing: sums are where they belong."""


class MatrixCore(TileCore):
    """Each subgroup multiplies squares of f16 by matrix units, which sum them in f32.

    Which elements of a square a lane holds is open, so sums pass through `tiles` in the end, in
    bands of columns: those of the `j`-th vector of all lanes lie side by side. Factors and sums
    share that memory, as little of it lets more workgroups run at once.
    """

    gap = MATRIX_GAP
    follows_runs = True
    widths = (8, 4)

    def __init__(self, tile: Tile, units: MatrixUnits) -> None:
        self._tile, self._units = tile, units
        self._matrices: Matrices = matrices_of(units)
        self._factors = HalfTiles()
        self._bands = tile.columns_each // 4
        self._band = tile.columns // self._bands
        self._apart = self._band + SUMS_GAP
        subgroups = tile.lanes // units.lanes
        self._across = 2 if subgroups % 2 == 0 and self._band % (2 * units.side) == 0 else 1
        self._rows = tile.rows * self._across // subgroups // units.side
        self._columns = self._band // self._across // units.side

    def staged(self, sides: Sequence[SharedMemoryTile]) -> None:
        """Place both factors in the workgroup's memory."""
        for side in sides:
            self._factors.add(side, self._tile.terms)

    def shared(self) -> Sequence[str]:
        """Returns factors of single halves, and what the others share with a band of sums."""
        entries = max(self._factors.entries, self._tile.rows * self._apart // 4)
        return [
            *self._factors.arrays(),
            f"var<workgroup> {TILES}: array<vec4<u32>, {entries}>;",
        ]

    def begin(self, emitter: WgslEmitter) -> None:
        """Declare a square of sums for each square of the subgroup's part of the tile."""
        for line in self._matrices.begin():
            emitter.line(line)
        side = self._units.side
        emitter.line(f"let row = subgroup / {self._across}u * {self._rows * side}u;")
        emitter.line(f"let column = subgroup % {self._across}u * {self._columns * side}u;")
        for i, j in product(range(self._rows), range(self._bands * self._columns)):
            emitter.line(self._matrices.zeros(f"m{i}_{j}"))

    def fetched(
        self, emitter: WgslEmitter, side: SharedMemoryTile, steps: Steps, step: Index
    ) -> Sequence[str]:
        """Take halves as memory holds them, where it does so in every step."""
        return self._factors.fetched(emitter, side, steps, step)

    def fill(self, emitter: WgslEmitter, side: SharedMemoryTile, slots: Sequence[str]) -> None:
        """Round to f16 what is none."""
        self._factors.fill(emitter, side.side.name, slots)

    def products(self, emitter: WgslEmitter) -> None:
        """Add the products of the subgroup's squares, a square of terms at a time."""
        side = self._units.side
        for k in range(0, self._tile.terms, side):
            left = [
                self._load(emitter, f"x{k}_{i}", "left", f"row + {i * side}u", k)
                for i in range(self._rows)
            ]
            for j in range(self._bands * self._columns):
                start = f"column + {self._first_column(j)}u"
                right = self._load(emitter, f"y{k}_{j}", "right", start, k)
                for i in range(self._rows):
                    for line in self._matrices.multiply(f"m{i}_{j}", left[i], right):
                        emitter.line(line)

    def _first_column(self, j: int) -> int:
        """The first column of the j-th square, from the subgroup's own first column on."""
        band, within = divmod(j, self._columns)
        return band * self._band + within * self._units.side

    def _load(self, emitter: WgslEmitter, name: str, side: str, start: str, term: int) -> Square:
        square, at = self._factors.square(name, side, side, start, f"{term}u")
        emitter.line(self._matrices.load(square, at))
        return square

    def end(self, emitter: WgslEmitter) -> None:
        """Have each lane read its sums from what the subgroups write, band by band."""
        side, tile, apart = self._units.side, self._tile, self._apart
        rows = tile.rows // tile.rows_each
        for band in range(self._bands):
            for i, j in product(range(self._rows), range(self._columns)):
                at = f"(row + {i * side}u) * {apart}u + column + {j * side}u"
                sums = f"m{i}_{band * self._columns + j}"
                for line in self._matrices.store(TILES, at, sums, apart):
                    emitter.line(line)
            emitter.line("workgroupBarrier();")
            for i in range(tile.rows_each):
                start = f"(down + {4 * (i // 4) * rows + i % 4}u) * {apart}u + across"
                emitter.line(f"let c{i}_{band} = bitcast<vec4<f32>>({TILES}[({start}) / 4u]);")
            if band + 1 < self._bands:
                emitter.line("workgroupBarrier();")
