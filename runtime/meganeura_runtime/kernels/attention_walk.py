"""How the kernels of attention go over blocks of columns: products, one after another, in steps.

While a product's terms are multiplied, the lanes fetch what comes next: its own next terms, or the
first ones of the product that follows, which may be that of the next block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meganeura_runtime.kernels.affine import Affine, Axis, Expression, variable
from meganeura_runtime.kernels.staged import Bank, Staged, Steps, multiply
from meganeura_runtime.kernels.tile import Tile
from meganeura_runtime.kernels.writer import Writer


@dataclass(frozen=True, slots=True)
class Product:
    """Sums of the products of two factors.

    The right one is fetched, block by block; so is the left one, unless all of its terms stand in
    workgroup memory already.
    """

    sums: str
    tile: Tile
    steps: Steps
    left: Bank
    right: Bank
    fetched: Callable[[Affine], Sequence[Staged]]

    def reads(self, block: Affine, step: Affine) -> list[tuple[str, Expression]]:
        """The registers of a step, and what is fetched into them."""
        return [
            (f"{side.side.name}{number}", element)
            for side in self.fetched(block)
            for number, element in enumerate(side.fetch(self.steps.at(step)))
        ]


class Walk:
    """Products that follow each other in every block."""

    def __init__(self, writer: Writer, block: Axis, products: Sequence[Product]) -> None:
        self._writer = writer
        self._block = block
        self._products = products

    def reads(self) -> list[Expression]:
        """Everything that is read in a block."""
        block = variable(self._block)
        return [e for one in self._products for _, e in one.reads(block, Affine(0))]

    def begin(self, start: str) -> None:
        """Declare the registers, and fetch what the first product begins with."""
        first = Axis("begin", self._block.size)
        self._writer.axis(first, f"min({start}, {self._block.size - 1}u)")
        block = variable(first)
        names = dict.fromkeys(
            name for one in self._products for name, _ in one.reads(block, Affine(0))
        )
        for name in names:
            self._writer.line(f"var {name} = 0.0f;")
        # Nothing is moved out of a condition: what is fetched is not kept for later blocks.
        with self._writer.condition("true"):
            self._fetch(self._products[0], block, Affine(0))

    def multiply(self, number: int) -> None:
        """Add up a product of the block."""
        writer, product = self._writer, self._products[number]
        count = product.steps.count
        slots = [
            (side.side.name, n, writer.index(slot))
            for side in product.fetched(variable(self._block))
            for n, slot in enumerate(side.slots)
        ]
        step = Axis(f"step{number}", count)
        with writer.loop(step):
            for name, n, slot in slots:
                writer.line(f"{name}[{slot}] = {name}{n};")
            writer.line("workgroupBarrier();")
            self._fetch_next(number, step)
            start = "down"
            if product.left.name not in {name for name, _, _ in slots}:
                start = "begins"
                words = product.tile.terms * product.left.pitch
                writer.line(f"let begins = down + {step.name} * {words}u;")
            multiply(writer, product.tile, product.left, product.right, product.sums, start)
            writer.line("workgroupBarrier();")

    def _fetch_next(self, number: int, step: Axis) -> None:
        writer, product = self._writer, self._products[number]
        if step.size > 1:
            with writer.block(f"if ({step.name} < {step.size - 1}u)"):
                following = Axis("following", step.size)
                writer.axis(following, f"{step.name} + 1u")
                self._fetch(product, variable(self._block), variable(following))
        with writer.condition(f"{step.name} == {step.size - 1}u"):
            if number + 1 < len(self._products):
                self._fetch(self._products[number + 1], variable(self._block), Affine(0))
                return
            behind = Axis("behind", self._block.size)
            writer.axis(behind, f"min({self._block.name} + 1u, {self._block.size - 1}u)")
            self._fetch(self._products[0], variable(behind), Affine(0))

    def _fetch(self, product: Product, block: Affine, step: Affine) -> None:
        values = [
            (name, self._writer.value(element)) for name, element in product.reads(block, step)
        ]
        for name, value in values:
            self._writer.line(f"{name} = {value};")
