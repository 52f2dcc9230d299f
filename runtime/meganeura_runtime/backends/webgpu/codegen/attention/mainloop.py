"""The mainloop of attention kernels over blocks of columns: several products, in steps.

While a step's terms are multiplied, the lanes fetch those of the next one; after the last step of a
product those are its first ones in the next block. Nothing is done with what is fetched before it
is put into the memory of the workgroup: a lane would have to wait for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    SharedMemoryBank,
    SharedMemoryTile,
    Steps,
    multiply,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Affine, Axis, Expression, variable
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter


@dataclass(frozen=True, slots=True)
class Product:
    """Sums of the products of two factors, over all terms of a block."""

    sums: str
    tile: Tile
    """The sums of a lane."""


@dataclass(frozen=True, slots=True)
class LaneProduct(Product):
    """A product of which each lane adds up its rows and columns, in steps.

    Both factors are fetched; or only the right one, where the lanes publish the left one
    themselves, in so many `portions` of as many steps.
    """

    steps: Steps
    left: SharedMemoryBank
    right: SharedMemoryBank
    fetched: Callable[[Affine], Sequence[SharedMemoryTile]]
    portions: int = 1

    def reads(self, block: Affine, step: Affine) -> list[tuple[str, Expression]]:
        """The registers of a step, and what is fetched into them."""
        return [
            (f"{self.sums}_{side.side.name}{number}", element)
            for side in self.fetched(block)
            for number, element in enumerate(side.fetch(self.steps.at(step)))
        ]


class Mainloop(ABC):
    """Products that follow each other in every block of columns."""

    @abstractmethod
    def reads(self) -> list[Expression]:
        """Everything that is read."""

    @abstractmethod
    def start(self) -> None:
        """Fetch what stays the same in all blocks; once, before all walks over the blocks."""

    @abstractmethod
    def begin(self, start: str) -> None:
        """Fetch what the products begin with in the block `start`."""

    @abstractmethod
    def multiply(self, number: int, portion: int = 0) -> None:
        """Add up a product of the block, or a portion of it."""

    @abstractmethod
    def finish(self) -> None:
        """Bring all sums to the lanes that they belong to, after the last block."""


class KvLoop(Mainloop):
    """Products that the lanes compute in f32."""

    def __init__(self, emitter: WgslEmitter, block: Axis, products: Sequence[LaneProduct]) -> None:
        self._emitter = emitter
        self._block = block
        self._products = products

    def reads(self) -> list[Expression]:
        """Everything that is read in a block."""
        block = variable(self._block)
        return [
            element
            for product in self._products
            for side in product.fetched(block)
            for step in product.steps.written
            for element in side.fetch(step)
        ]

    def start(self) -> None:
        """Do nothing: rows are fetched with each block."""

    def finish(self) -> None:
        """Do nothing: sums are where they belong."""

    def begin(self, start: str) -> None:
        """Fetch the terms of each product's first step."""
        first = Axis("begin", self._block.size)
        self._emitter.axis(first, f"min({start}, {self._block.size - 1}u)")
        for product in self._products:
            for name, _ in product.reads(variable(first), Affine(0)):
                self._emitter.line(f"var {name} = 0.0f;")
        # Nothing is moved out of a condition: what is loaded is not reused by later blocks.
        with self._emitter.condition("true"):
            for product in self._products:
                self._fetch(product, variable(first), Affine(0))

    def multiply(self, number: int, portion: int = 0) -> None:
        """Add up a product of the block, or a portion of it."""
        emitter, product = self._emitter, self._products[number]
        count = product.steps.count // product.portions
        slots = [
            (side.side.name, n, emitter.index(slot))
            for side in product.fetched(variable(self._block))
            for n, slot in enumerate(side.slots)
        ]
        step = Axis(f"step{number}", count)
        with emitter.loop(step):
            for name, n, slot in slots:
                emitter.line(f"{name}[{slot}] = {product.sums}_{name}{n};")
            emitter.line("workgroupBarrier();")
            self._fetch_next(product, step, portion)
            start = "down"
            if count > 1 and product.left.name not in {name for name, _, _ in slots}:
                start = "begins"
                words = product.tile.terms * product.left.pitch
                emitter.line(f"let begins = down + {step.name} * {words}u;")
            starts = start, "across"
            multiply(emitter, product.tile, product.left, product.right, product.sums, starts)
            emitter.line("workgroupBarrier();")

    def _fetch_next(self, product: LaneProduct, step: Axis, portion: int) -> None:
        emitter, block = self._emitter, self._block
        if portion < product.portions - 1:
            following = Axis("following", product.steps.count)
            emitter.axis(following, f"{step.name} + {portion * step.size + 1}u")
            self._fetch(product, variable(block), variable(following))
            return
        following, ahead = Axis("following", product.steps.count), Axis("ahead", block.size)
        ends = f"{step.name} == {step.size - 1}u"
        begin = portion * step.size + 1
        emitter.axis(following, f"select({step.name} + {begin}u, 0u, {ends})")
        after = f"min({block.name} + 1u, {block.size - 1}u)"
        emitter.axis(ahead, f"select({block.name}, {after}, {ends})")
        self._fetch(product, variable(ahead), variable(following))

    def _fetch(self, product: LaneProduct, block: Affine, step: Affine) -> None:
        values = [
            (name, self._emitter.value(element)) for name, element in product.reads(block, step)
        ]
        for name, value in values:
            self._emitter.line(f"{name} = {value};")
