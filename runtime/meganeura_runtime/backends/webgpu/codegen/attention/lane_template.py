"""The template of the attention kernels in f32: each lane multiplies its rows and columns."""

from collections.abc import Sequence

from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_template import (
    LETTERS,
    KernelTemplate,
)
from meganeura_runtime.backends.webgpu.codegen.attention.mainloop import (
    KvLoop,
    LaneProduct,
    Mainloop,
    Product,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    Operand,
    Read,
    SharedMemoryBank,
    SharedMemoryTile,
    Steps,
    staged,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    BoundsCheck,
    Expression,
    Index,
    variable,
)
from meganeura_runtime.backends.webgpu.config.limits import Target


class LaneTemplate(KernelTemplate):
    """One kernel of attention, while it is being written, whose lanes multiply in f32."""

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
        self._banks: dict[str, int] = {}
        self._products: list[LaneProduct] = []

    def compare(self, sums: str, left: Read, right: Read, width: int) -> Product:
        """Every row with every column of a block, over their width."""
        tile, steps = self.tile, Steps((width,), (0,), self.tile.terms)

        def fetched(block: Affine) -> Sequence[SharedMemoryTile]:
            sides = (
                Operand("left", tile.rows, variable(self.row), (self.rows,), left),
                Operand("right", tile.columns, block, (self.columns,), right),
            )
            return [staged(side, steps, self.lane, self.make) for side in sides]

        banks = (
            self._bank("left", tile.rows, tile.terms),
            self._bank("right", tile.columns, tile.terms),
        )
        return self._added(LaneProduct(sums, tile.scores, steps, *banks, fetched))

    def mix(self, sums: str, right: Read, width: int, *, kept: bool) -> Product:
        """The rows of `right` that belong to the columns of a block, by their published weights.

        In the place of rows that do not exist stands the first one, as their weights are 0. The
        lanes need not know sums that are `kept` before the last block.
        """
        del kept
        tile = self.tile.sums(width)
        steps = Steps((self.tile.columns,), (0,), tile.terms)

        def fetched(block: Affine) -> Sequence[SharedMemoryTile]:
            def read(at: Index, term: Index) -> Expression:
                (number,) = term
                position = block * self.tile.columns + self.tile.column(number)
                return right((BoundsCheck(position, 1, self.columns).index,), at)

            side = Operand("right", tile.columns, Affine(0), (width,), read)
            return [staged(side, steps, self.lane, self.make)]

        banks = (
            self._bank("left", tile.rows, self.tile.published),
            self._bank("right", tile.columns, tile.terms),
        )
        portions = self.tile.columns // self.tile.published
        return self._added(LaneProduct(sums, tile, steps, *banks, fetched, portions))

    def _added(self, one: LaneProduct) -> Product:
        self._products.append(one)
        return one

    def loop(self) -> Mainloop:
        """The mainloop over blocks of columns, with all products in the order of their calls."""
        return KvLoop(self.emitter, self.block, self._products)

    def _bank(self, name: str, size: int, terms: int) -> SharedMemoryBank:
        bank = SharedMemoryBank(name, size)
        self._banks[name] = max(self._banks.get(name, 0), terms * bank.pitch)
        return bank

    def mixed(self, walk: Mainloop, number: int, name: str = "s") -> None:
        """Publish a tile of weights portion by portion, and add up what they belong to."""
        for portion in range(self.tile.columns // self.tile.published):
            self._publish(name, number, portion)
            walk.multiply(number, portion)

    def _publish(self, name: str, number: int, portion: int) -> None:
        """Put a portion of a lane's weights where all lanes can read it, its columns as terms."""
        tile, bank = self.tile, SharedMemoryBank("left", self.tile.rows)
        each = tile.published // tile.across
        spot = self.emitter.index(self._across * each * bank.pitch)
        self.emitter.line(f"let spot{number}_{portion} = {spot} + down;")
        for term in range(each):
            j, v = divmod(portion * each + term, 4)
            for i in range(tile.rows_each):
                start = term * bank.pitch + 4 * (i // 4) * tile.down + i % 4
                self.emitter.line(
                    f"left[spot{number}_{portion} + {start}u] = {name}{i}_{j}.{LETTERS[v]};"
                )

    def kernel(self, *shared: str) -> Kernel:
        """The finished kernel."""
        banks = (
            f"var<workgroup> {name}: array<f32, {words}>;" for name, words in self._banks.items()
        )
        return super().kernel(*banks, *shared)
