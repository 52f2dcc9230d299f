"""The template of the attention kernels on matrix units: products of squares of f16.

Tiles of both factors lie in the workgroup's memory, and behind them a region through which all else
passes: the sums of a product on their way from the subgroups to the lanes, and the weights on their
way back, rounded to f16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_template import KernelTemplate
from meganeura_runtime.backends.webgpu.codegen.attention.mainloop import Mainloop, Product
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Kernel,
    Memory,
    Result,
    Work,
    vec8s_of,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.half_tiles import TILES, HalfTiles
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    Operand,
    Read,
    SharedMemoryTile,
    Steps,
    staged,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matrices import (
    Matrices,
    Square,
    matrices_of,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import MATRIX_GAP, SUMS_GAP
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    Expression,
    variable,
)
from meganeura_runtime.backends.webgpu.config.limits import MatrixUnits, Target


@dataclass(frozen=True, slots=True)
class MatrixProduct(Product):
    """A product of which each subgroup adds up its squares."""

    columns: int
    """Columns of the whole, in whole squares."""
    terms: int
    left: str | None
    """The tile of the left factor; None if it is the published weights."""
    right: str
    kept: bool
    """True if the sums stay with the subgroups until the last block."""


class MatrixTemplate(KernelTemplate):
    """One kernel of attention, while it is being written, on matrix units."""

    def __init__(
        self,
        work: Work,
        memory: Memory,
        target: Target,
        tile: AttentionTile,
        batch: tuple[int, ...],
        sizes: tuple[int, int],
    ) -> None:
        super().__init__(work, memory, target, tile, batch, sizes)
        units = target.limits.matrix_units
        assert units is not None, "an attention in f16 is for adapters with matrix units"
        self.units: MatrixUnits = units
        self.matrices: Matrices = matrices_of(units)
        for line in self.matrices.begin():
            self.emitter.line(line)
        self.tiles = HalfTiles()
        self._names: dict[tuple[Read, bool], str] = {}
        self._loaded: dict[str, tuple[Read, int, bool]] = {}
        self._widest = tile.columns
        self._products: list[MatrixProduct] = []

    # --- products ---------------------------------------------------------------------------------

    def compare(self, sums: str, left: Read, right: Read, width: int) -> Product:
        """Every row with every column of a block, over their width."""
        terms = self._whole(width)
        one = MatrixProduct(
            sums,
            self.tile.scores,
            self.tile.columns,
            terms,
            self._tile(left, width, is_row=True),
            self._tile(right, width, is_row=False),
            kept=False,
        )
        self._products.append(one)
        return one

    def mix(self, sums: str, right: Read, width: int, *, kept: bool) -> Product:
        """The rows of `right` that belong to the columns of a block, by their published weights."""
        tile, columns = self.tile.sums(width), self._whole(width)
        self._widest = max(self._widest, columns, tile.columns)
        name = self._tile(right, width, is_row=False)
        one = MatrixProduct(sums, tile, columns, self.tile.columns, None, name, kept)
        self._products.append(one)
        return one

    def loop(self) -> Mainloop:
        """The mainloop over blocks of columns, with all products in the order of their calls."""
        return _Loop(self, self._products)

    def mixed(self, walk: Mainloop, number: int, name: str = "s") -> None:
        """Publish a tile of weights, and add up what they belong to."""
        emitter, tile = self.emitter, self.tile
        emitter.line("workgroupBarrier();")
        for i, j in self.each(tile.scores):
            at = f"({self._row_of(i)}) * {2 * self.pitch}u + across + {4 * j * tile.across}u"
            entry = f"{TILES}[({at}) / 8u + {self.region}u]"
            for word, letters in enumerate(("xy", "zw")):
                text = f"pack2x16float({name}{i}_{j}.{letters})"
                emitter.line(f"{entry}[({at}) % 8u / 2u + {word}u] = {text};")
        emitter.line("workgroupBarrier();")
        walk.multiply(number)

    def _whole(self, width: int) -> int:
        """A width in whole squares."""
        return -(-width // self.units.side) * self.units.side

    def _tile(self, read: Read, width: int, *, is_row: bool) -> str:
        """The name of the tile of a tensor; one that is read twice is fetched once."""
        if (read, is_row) not in self._names:
            name = f"{'fixed' if is_row else 'moving'}{len(self._names)}_"
            self._names[read, is_row] = name
            self._loaded[name] = read, width, is_row
            self.tiles.add(self.side(name, Affine(0)), self._whole(width))
        return self._names[read, is_row]

    def names(self, *, is_row: bool) -> list[str]:
        """The tiles of the rows, or of the columns of a block."""
        return [name for name, (_, _, each) in self._loaded.items() if each is is_row]

    def steps(self, name: str) -> Steps:
        """The single step in which a tile is fetched."""
        _, width, _ = self._loaded[name]
        return Steps((width,), (0,), self._whole(width))

    def side(self, name: str, block: Affine) -> SharedMemoryTile:
        """A tile as lanes move it."""
        read, _, is_row = self._loaded[name]
        size, number, total = (
            (self.tile.rows, variable(self.row), self.rows)
            if is_row
            else (self.tile.columns, block, self.columns)
        )
        operand = Operand(name, size, number, (total,), read, MATRIX_GAP, True, (8, 4))  # noqa: FBT003
        return staged(operand, self.steps(name), self.lane, self.make)

    # --- the region behind the tiles --------------------------------------------------------------

    @property
    def region(self) -> int:
        """The entry of `tiles` at which the region begins."""
        return self.tiles.entries

    @property
    def pitch(self) -> int:
        """Words from one row of the region to the next."""
        return self._widest + SUMS_GAP

    def _row_of(self, i: int) -> str:
        """The row of the tile that is a lane's i-th."""
        return f"down + {4 * (i // 4) * self.tile.down + i % 4}u"

    def add_region(self, one: MatrixProduct) -> None:
        """Add to a lane's sums what the subgroups have stored."""
        for i, j in self.each(one.tile):
            column = f"across + {4 * j * self.tile.across}u"
            at = f"(({self._row_of(i)}) * {self.pitch}u + {column}) / 4u + {self.region}u"
            self.emitter.line(f"{one.sums}{i}_{j} += bitcast<vec4<f32>>({TILES}[{at}]);")

    def weights(self, name: str, start: str, term: str) -> tuple[Square, str]:
        """A square of the published weights, and where it begins."""
        length = 2 * self.pitch
        square = Square(name, "left", TILES, length, 8, by_columns=False)
        return square, f"(({start}) * {length}u + {term}) / 8u + {self.region}u"

    # --- the kernel -------------------------------------------------------------------------------

    def bind(self, reads: Sequence[Expression], results: Sequence[Result]) -> None:
        """Decide how many neighbours of each tensor are read and written at once."""
        super().bind(reads, results)
        self.emitter.vec8s = vec8s_of(reads, self.memory, results)

    def kernel(self, *shared: str) -> Kernel:
        """The finished kernel."""
        entries = self.region + self.tile.rows * self.pitch // 4
        tiles = f"var<workgroup> {TILES}: array<vec4<u32>, {entries}>;"
        return super().kernel(*self.tiles.arrays(), tiles, *shared)


class _Loop(Mainloop):
    """Products that follow each other in every block.

    While those of a block are computed, the lanes fetch what the next one needs.
    """

    def __init__(self, frame: MatrixTemplate, products: Sequence[MatrixProduct]) -> None:
        self._frame = frame
        self._products = products
        self._emitter = frame.emitter

    def reads(self) -> list[Expression]:
        """Everything that is read."""
        frame, block = self._frame, variable(self._frame.block)
        return [
            element
            for is_row in (True, False)
            for name in frame.names(is_row=is_row)
            for element in frame.side(name, block).fetch(frame.steps(name).at(Affine(0)))
        ]

    def start(self) -> None:
        """Put the rows into the workgroup's memory, and declare sums that are kept."""
        for name in self._frame.names(is_row=True):
            for number, value in enumerate(self._fetched(name, Affine(0))):
                self._emitter.line(f"let {name}{number} = {value};")
            self._fill(name)
        for one in self._products:
            if one.kept:
                self._zero(one)

    def begin(self, start: str) -> None:
        """Fetch the columns of the first block."""
        frame, emitter = self._frame, self._emitter
        size = frame.block.size
        first = Axis("begin", size)
        emitter.axis(first, f"min({start}, {size - 1}u)")
        for name in frame.names(is_row=False):
            for number, value in enumerate(self._fetched(name, variable(first))):
                emitter.line(f"var {name}{number} = {value};")

    def multiply(self, number: int, portion: int = 0) -> None:
        """Add up a product of the block."""
        del portion
        frame, emitter, one = self._frame, self._emitter, self._products[number]
        if number == 0:
            for name in frame.names(is_row=False):
                self._fill(name)
            emitter.line("workgroupBarrier();")
            self._fetch_next()
        if not one.kept:
            self._zero(one)
        self._add_products(one)
        if not one.kept:
            if number > 0:
                emitter.line("workgroupBarrier();")
            self._pass_on(one)
        elif number == len(self._products) - 1:
            emitter.line("workgroupBarrier();")

    def finish(self) -> None:
        """Bring the sums that were kept to the lanes."""
        for one in self._products:
            if one.kept:
                self._emitter.line("workgroupBarrier();")
                self._pass_on(one)

    def _pass_on(self, one: MatrixProduct) -> None:
        frame = self._frame
        row, column, rows, columns = self._part(one)
        side = frame.units.side
        for i, j in product(range(rows), range(columns)):
            at = f"({row} + {i * side}u) * {frame.pitch}u + {column} + {j * side}u"
            at = f"{at} + {4 * frame.region}u"
            for line in frame.matrices.store(TILES, at, self._square(one, i, j), frame.pitch):
                self._emitter.line(line)
        self._emitter.line("workgroupBarrier();")
        frame.add_region(one)

    def _part(self, one: MatrixProduct) -> tuple[str, str, int, int]:
        """A subgroup's first row and column of a product, and its squares down and across."""
        side = self._frame.units.side
        subgroups = self._frame.tile.lanes // self._frame.units.lanes
        across = 2 if subgroups % 2 == 0 and one.columns % (2 * side) == 0 else 1
        rows = self._frame.tile.rows * across // subgroups // side
        columns = one.columns // across // side
        return (
            f"subgroup / {across}u * {rows * side}u",
            f"subgroup % {across}u * {columns * side}u",
            rows,
            columns,
        )

    @staticmethod
    def _square(one: MatrixProduct, i: int, j: int) -> str:
        return f"{one.sums}_m{i}_{j}"

    def _zero(self, one: MatrixProduct) -> None:
        _, _, rows, columns = self._part(one)
        for i, j in product(range(rows), range(columns)):
            self._emitter.line(self._frame.matrices.zeros(self._square(one, i, j)))

    def _add_products(self, one: MatrixProduct) -> None:
        frame, emitter = self._frame, self._emitter
        matrices, side = frame.matrices, frame.units.side
        row, column, rows, columns = self._part(one)
        for k in range(0, one.terms, side):
            left: list[Square] = []
            for i in range(rows):
                name, start = f"{one.sums}_x{k}_{i}", f"{row} + {i * side}u"
                square, at = (
                    frame.weights(name, start, f"{k}u")
                    if one.left is None
                    else frame.tiles.square(name, one.left, "left", start, f"{k}u")
                )
                emitter.line(matrices.load(square, at))
                left.append(square)
            for j in range(columns):
                name, start = f"{one.sums}_y{k}_{j}", f"{column} + {j * side}u"
                swapped = one.left is None
                square, at = frame.tiles.square(
                    name, one.right, "right", start, f"{k}u", swapped=swapped
                )
                emitter.line(matrices.load(square, at))
                for i in range(rows):
                    sums = self._square(one, i, j)
                    for line in matrices.multiply(sums, left[i], square):
                        emitter.line(line)

    def _fetched(self, name: str, block: Affine) -> Sequence[str]:
        frame, steps = self._frame, self._frame.steps(name)
        side = frame.side(name, block)
        return frame.tiles.fetched(self._emitter, side, steps, steps.at(Affine(0)))

    def _fill(self, name: str) -> None:
        side = self._frame.side(name, Affine(0))
        slots = [self._emitter.index(slot) for slot in side.slots]
        self._frame.tiles.fill(self._emitter, name, slots)

    def _fetch_next(self) -> None:
        frame, emitter = self._frame, self._emitter
        ahead = Axis("ahead", frame.block.size)
        emitter.axis(ahead, f"min({frame.block.name} + 1u, {frame.block.size - 1}u)")
        for name in frame.names(is_row=False):
            for number, value in enumerate(self._fetched(name, variable(ahead))):
                emitter.line(f"{name}{number} = {value};")
