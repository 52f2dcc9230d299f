"""Multiplication in the workgroup of a tile: lane by lane in f32, or by matrix units."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import is_vec4
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    GAP,
    SharedMemoryBank,
    SharedMemoryTile,
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
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.config.limits import MatrixUnits


class TileCore(ABC):
    """The inner part of a tiled kernel. Its sums end in registers `c{i}_{j}` of four columns."""

    gap: int = GAP
    """Unused elements behind each line of a factor in the workgroup's memory."""
    follows_runs: bool = False
    """True if what a lane fetches of a factor at once lies side by side there."""

    @abstractmethod
    def shared(self) -> Sequence[str]:
        """Declarations of the workgroup's memory, where the factors are `left` and `right`."""

    @abstractmethod
    def begin(self, emitter: WgslEmitter) -> None:
        """Declare sums of 0. Later a lane's first row is `down`, its first column `across`."""

    def staged(self, sides: Sequence[SharedMemoryTile]) -> None:
        """Learn where each lane puts what it fetches of both factors, before all that follows."""
        del sides

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


@dataclass(frozen=True, slots=True)
class _Layout:
    """The lines of a factor in the workgroup's memory: along the terms, or across them."""

    lines: int
    length: int
    """Elements of a line, with the unused ones."""
    together: int
    """Elements of one entry of the array: 4 or 1."""
    along_terms: bool

    @property
    def entries(self) -> int:
        """The length of the array."""
        return self.lines * self.length // self.together

    @property
    def kind(self) -> str:
        """The type of an entry."""
        return "vec4<f16>" if self.together == 4 else "f16"


class MatrixCore(TileCore):
    """Each subgroup multiplies squares of f16 by matrix units, which sum them in f32.

    Four neighbours are put into the workgroup's memory at once wherever they come together. Which
    elements of a square a lane holds is open, so sums pass through memory in the end, in bands of
    columns: those of the `j`-th vector of all lanes lie side by side.
    """

    gap = MATRIX_GAP
    follows_runs = True

    def __init__(self, tile: Tile, units: MatrixUnits) -> None:
        self._tile, self._units = tile, units
        self._matrices: Matrices = matrices_of(units)
        self._layouts: dict[str, _Layout] = {}
        self._bands = tile.columns_each // 4
        self._band = tile.columns // self._bands
        subgroups = tile.lanes // units.lanes
        self._across = 2 if subgroups % 2 == 0 and self._band % (2 * units.side) == 0 else 1
        self._rows = tile.rows * self._across // subgroups // units.side
        self._columns = self._band // self._across // units.side

    def staged(self, sides: Sequence[SharedMemoryTile]) -> None:
        """Find out along which axis each factor lies, and where lanes put four neighbours."""
        terms = self._tile.terms
        for side in sides:
            runs = [side.slots[at : at + 4] for at in range(0, len(side.slots), 4)]
            together = 4 if all(len(run) == 4 and is_vec4(run) for run in runs) else 1
            size = side.side.size
            lines, length = (size, terms) if side.along_terms else (terms, size)
            self._layouts[side.side.name] = _Layout(
                lines, length + self.gap, together, side.along_terms
            )

    def shared(self) -> Sequence[str]:
        """Returns both factors in f16, and a band of sums."""
        return [
            *(
                f"var<workgroup> {name}: array<{layout.kind}, {layout.entries}>;"
                for name, layout in self._layouts.items()
            ),
            f"var<workgroup> sums: array<f32, {self._tile.rows * (self._band + SUMS_GAP)}>;",
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

    def fill(self, emitter: WgslEmitter, side: SharedMemoryTile, slots: Sequence[str]) -> None:
        """Round to f16: infinite from 65,520 on, 0 below 3e-8."""
        name = side.side.name
        together = self._layouts[name].together
        for at in range(0, len(slots), together):
            words = ", ".join(f"{name}{at + v}" for v in range(together))
            if together == 4:
                emitter.line(f"{name}[({slots[at]}) / 4u] = vec4<f16>(vec4<f32>({words}));")
            else:
                emitter.line(f"{name}[{slots[at]}] = f16({words});")

    def products(self, emitter: WgslEmitter) -> None:
        """Add the products of the subgroup's squares, a square of terms at a time."""
        side = self._units.side
        for k in range(0, self._tile.terms, side):
            left = [
                self._load(emitter, f"x{k}_{i}", "left", k, f"row + {i * side}u")
                for i in range(self._rows)
            ]
            for j in range(self._bands * self._columns):
                start = f"column + {self._first_column(j)}u"
                right = self._load(emitter, f"y{k}_{j}", "right", k, start)
                for i in range(self._rows):
                    for line in self._matrices.multiply(f"m{i}_{j}", left[i], right):
                        emitter.line(line)

    def _first_column(self, j: int) -> int:
        """The first column of the j-th square, from the subgroup's own first column on."""
        band, within = divmod(j, self._columns)
        return band * self._band + within * self._units.side

    def _load(self, emitter: WgslEmitter, name: str, side: str, term: int, start: str) -> Square:
        layout = self._layouts[side]
        length, together = layout.length, layout.together
        line, along = (start, f"{term}u") if layout.along_terms else (f"{term}u", start)
        by_columns = layout.along_terms is not (side == "left")
        square = Square(name, side, length, together, by_columns)
        at = f"(({line}) * {length}u + {along}) / {together}u"
        emitter.line(self._matrices.load(square, at))
        return square

    def end(self, emitter: WgslEmitter) -> None:
        """Have each lane read its sums from what the subgroups write, band by band."""
        side, tile, apart = self._units.side, self._tile, self._band + SUMS_GAP
        rows = tile.rows // tile.rows_each
        for band in range(self._bands):
            for i, j in product(range(self._rows), range(self._columns)):
                at = f"(row + {i * side}u) * {apart}u + column + {j * side}u"
                sums = f"m{i}_{band * self._columns + j}"
                for line in self._matrices.store("sums", at, sums, apart):
                    emitter.line(line)
            emitter.line("workgroupBarrier();")
            for i in range(tile.rows_each):
                start = f"(down + {4 * (i // 4) * rows + i % 4}u) * {apart}u + across"
                words = ", ".join(f"sums[{start} + {v}u]" for v in range(4))
                emitter.line(f"let c{i}_{band} = vec4<f32>({words});")
            if band + 1 < self._bands:
                emitter.line("workgroupBarrier();")
