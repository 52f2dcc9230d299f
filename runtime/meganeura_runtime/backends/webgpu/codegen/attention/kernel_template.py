"""The template of the attention kernels: lanes, rows, products and stores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from meganeura_dsl.ir.graph import Value
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.mainloop import Mainloop, Product
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Result,
    Work,
    all_of,
    result_of,
    vec4s_of,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import OutputCoordinate
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.matmul.output_tile import LaneResults, shared_out
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    Read,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Expression,
    Index,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.config.limits import Target

LETTERS = "xyzw"
ElementsOf: TypeAlias = Callable[[Value], Sequence[Sequence[Element]]]


class KernelTemplate(ABC):
    """One kernel of attention, while it is being written.

    Its text knows `rows` and `block`, the numbers of the tile along both sides, and `down` and
    `across`, where in the tile the lane's first elements are.
    """

    def __init__(
        self,
        work: Work,
        memory: Memory,
        target: Target,
        tile: AttentionTile,
        batch: tuple[int, ...],
        sizes: tuple[int, int],
    ) -> None:
        self.tile = tile
        self.work = work
        self.memory = memory
        self.rows, self.columns = sizes
        grid = (*batch, -(-self.rows // tile.rows))
        self._launch = Launch(prod(grid) * tile.lanes, tile.lanes, target)
        self.emitter, self.make = WgslEmitter(memory.halves), Expressions()
        group, exists = self._launch.declare_group(self.emitter, "tile")
        self.exists = all_of(exists)
        self.lane = Axis("l", tile.lanes)
        self.emitter.axis(self.lane, "lane")
        *self.batch, row = unravel(variable(group), grid)
        self.row = Axis("rows", grid[-1])
        self.emitter.axis(self.row, self.emitter.index(row))
        self._down, self._across = shared_out(tile.scores, variable(self.lane))
        self.emitter.line(f"let down = {self.emitter.index(self._down * 4)};")
        self.emitter.line(f"let across = {self.emitter.index(self._across * 4)};")
        self.block = Axis("block", -(-self.columns // tile.columns))
        self._before = memory.before(work)
        self.reader = ElementInliner(self.make, self._before)

    # --- products ---------------------------------------------------------------------------------

    @abstractmethod
    def compare(self, sums: str, left: Read, right: Read, width: int) -> Product:
        """Every row with every column of a block, over their width."""

    @abstractmethod
    def mix(self, sums: str, right: Read, width: int, *, kept: bool) -> Product:
        """The rows of `right` that belong to the columns of a block, by their published weights.

        In the place of rows that do not exist stands the first one, as their weights are 0. The
        lanes need not know sums that are `kept` before the last block.
        """

    @abstractmethod
    def loop(self) -> Mainloop:
        """The mainloop over blocks of columns, with all products in the order of their calls."""

    @abstractmethod
    def mixed(self, walk: Mainloop, number: int, name: str = "s") -> None:
        """Publish a tile of weights, and add up what they belong to."""

    # --- registers --------------------------------------------------------------------------------

    @property
    def vec4s(self) -> range:
        """A lane's rows, four by four."""
        return range(self.tile.rows_each // 4)

    def each(self, tile: Tile) -> list[tuple[int, int]]:
        """Rows and vec4 of columns of a lane."""
        return [(i, j) for i in range(tile.rows_each) for j in range(tile.columns_each // 4)]

    def zero(self, sums: str, tile: Tile) -> None:
        """Declare sums of nothing."""
        for i, j in self.each(tile):
            self.emitter.line(f"var {sums}{i}_{j} = vec4<f32>();")

    @staticmethod
    def of_row(name: str, i: int) -> str:
        """The element of a lane's i-th row, of a vector for every four rows."""
        return f"{name}{i // 4}.{LETTERS[i % 4]}"

    def row_vec4(self, vec4: int) -> list[tuple[BoundsCheck, Index]]:
        """Four of a lane's rows, and whether they exist."""
        lane_results = self.lane_results(
            (), self.tile.scores, Affine(0), lambda row, _: OutputCoordinate(row)
        )
        return [lane_results.at_row(4 * vec4 + v) for v in range(4)]

    def column_vec4(self, vec4: int) -> list[BoundsCheck]:
        """Four of a lane's columns in a block, which need not exist."""
        first = variable(self.block) * self.tile.columns + self._across * 4
        start = first + 4 * vec4 * self.tile.across
        return [BoundsCheck(start + v, 1, self.columns) for v in range(4)]

    def vector(self, elements: Sequence[Expression]) -> str:
        """The text of a vector."""
        return f"vec4<f32>({', '.join(self.emitter.value(one) for one in elements)})"

    # --- results ----------------------------------------------------------------------------------

    def lane_results(
        self,
        columns: tuple[int, ...],
        tile: Tile,
        column: Affine,
        coordinate: Callable[[Index, Index], OutputCoordinate],
        sums: str = "c",
    ) -> LaneResults:
        """Returns the positions of the lane's sums in the result."""
        row = variable(self.row)
        return LaneResults(
            (self.rows,), columns, coordinate, tile, row, column, self._down, self._across, sums
        )

    def results(self, index: int, elements: ElementsOf) -> list[Result]:
        """Returns the stores at the elements of the op's result of that number, if it is used."""
        return [
            result_of(self.make, self.work.stores_of(anchor), self._before, one)
            for anchor in self.work.anchors
            if anchor.index == index
            for one in elements(anchor)
        ]

    def bind(self, reads: Sequence[Expression], results: Sequence[Result]) -> None:
        """Decide how many neighbours of each tensor are read and written at once."""
        self.emitter.vec4s = vec4s_of(reads, self.memory, results)

    def kernel(self, *shared: str) -> Kernel:
        """The finished kernel."""
        return self._launch.kernel(self.emitter, self.memory, shared)
