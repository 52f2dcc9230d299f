"""Shared-memory tiles: the lanes of a workgroup copy part of an operand where all can read it.

In each step they fetch a few terms of the tile's rows or columns into registers, which may happen
long before they put them into the memory of the workgroup.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import is_run
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
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
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    Expressions,
    Load,
    guarded,
    walk,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.strides import stride_along

GAP = 4
"""Unused words between the terms of a tile, so that lanes write to different banks."""

Read = Callable[[Index, Index], Expression]
"""A factor, at an index of its rows or columns and of the terms."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The terms, cut into steps: some of the axes `together` in each, the others one by one."""

    terms: tuple[int, ...]
    together: tuple[int, ...]
    at_once: int

    @staticmethod
    def of(contraction: Contraction, at_once: int) -> "Steps":
        """The axes that are cheapest to step along, or all where that would waste too much."""
        every = tuple(range(len(contraction.terms)))
        together = every if contraction.together is None else contraction.together
        size = prod(contraction.terms[axis] for axis in together)
        wasted = -size % at_once
        return Steps(contraction.terms, every if 4 * wasted > size else together, at_once)

    @property
    def length(self) -> int:
        """Terms along the axes that are taken together."""
        return prod(self._sizes)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(self.terms[axis] for axis in self.together)

    @property
    def _others(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.terms)) if axis not in self.together)

    @property
    def _grid(self) -> tuple[int, ...]:
        return (-(-self.length // self.at_once), *(self.terms[axis] for axis in self._others))

    @property
    def count(self) -> int:
        """The number of steps."""
        return prod(self._grid)

    def at(self, step: Affine) -> Index:
        """The step's block, and its index along each of the other axes."""
        return unravel(step, self._grid)

    @property
    def written(self) -> list[Index]:
        """The steps that a kernel spells out: the first, and any of those that follow in a loop.

        What is aligned in the first need not be so in others.
        """
        following = [Axis("following", self.count)] if self.count > 1 else []
        return [self.at(Affine(0)), *(self.at(variable(axis)) for axis in following)]

    def term(self, step: Index, number: Affine, width: int) -> tuple[BoundsCheck, list[Index]]:
        """Neighbouring terms of a step, from the `number`-th `width` of them on."""
        block, *others = step
        guard = BoundsCheck(block * (self.at_once // width) + number, 1, self.length // width)
        positions = dict(zip(self._others, others, strict=True))
        found: list[Index] = []
        for position in range(width):
            inside = unravel(guard.index * width + position, self._sizes)
            both = positions | dict(zip(self.together, inside, strict=True))
            found.append(tuple(both[axis] for axis in range(len(self.terms))))
        return guard, found


@dataclass(frozen=True, slots=True)
class SharedMemoryBank:
    """Workgroup memory that holds so many rows or columns, one term after another."""

    name: str
    size: int

    @property
    def pitch(self) -> int:
        """Words from one term to the next."""
        return self.size + GAP

    def four(self, base: str, start: int) -> str:
        """Four neighbours from an index on."""
        words = (f"{self.name}[{base} + {start + v}u]" for v in range(4))
        return f"vec4<f32>({', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor, and the part of it that belongs to a tile."""

    name: str
    size: int
    tile: Affine
    axes: tuple[int, ...]
    read: Read
    gap: int = GAP
    """Unused elements behind each line in the workgroup's memory."""
    follows_runs: bool = False
    """True if what a lane fetches at once lies side by side there; else what has one term does."""
    widths: Sequence[int] = (4,)
    """Numbers of neighbours that a lane may fetch at once, the best first."""

    @property
    def bank(self) -> SharedMemoryBank:
        """The memory bank of its elements."""
        return SharedMemoryBank(self.name, self.size)

    def slot(self, position: Affine, term: Affine, run: "_Run", terms: int) -> Affine:
        """Returns the position of an element in the workgroup's memory, of a step of `terms`."""
        if self.follows_runs and run.along_terms:
            return position * (terms + self.gap) + term
        return term * (self.size + self.gap) + position

    def positions(self, number: Affine, width: int) -> tuple[BoundsCheck, list[Index]]:
        """Neighbouring rows or columns of the tile; the first of all where there are no more."""
        total = prod(self.axes)
        guard = BoundsCheck(self.tile * (self.size // width) + number, 1, total // width)
        return guard, [unravel(guard.index * width + v, self.axes) for v in range(width)]


@dataclass(frozen=True, slots=True)
class SharedMemoryTile:
    """The part of a factor that each lane moves in a step: its target, and a way to read it."""

    side: Operand
    slots: tuple[Affine, ...]
    width: int
    """Neighbours that a lane fetches at once."""
    along_terms: bool
    """True if lanes fetch neighbours along the terms."""
    fetch: Callable[[Index], list[Expression]]


def staged(side: Operand, steps: Steps, lane: Axis, make: Expressions) -> SharedMemoryTile:
    """Lanes lie along the axis that is contiguous in memory, and take neighbours if they can."""
    along_terms = _terms_are_closer(side, steps)
    length = steps.length if along_terms else prod(side.axes)
    for width in side.widths:
        run = _Run(width, along_terms)
        if length % width == 0 and prod(run.shape(side.size, steps.at_once)) % lane.size == 0:
            staged = _spread(side, steps, lane, make, run)
            if all(_are_runs(staged.fetch(step), width) for step in steps.written):
                return staged
    return _spread(side, steps, lane, make, _Run(1, along_terms))


def _are_runs(elements: Sequence[Expression], width: int) -> bool:
    """True if the elements are read so many neighbours at a time."""
    loads = [next((e for e in walk([one]) if isinstance(e, Load)), None) for one in elements]
    indices = [load.index for load in loads if load is not None]
    return len(indices) == len(elements) and all(
        is_run(indices[first : first + width], width) for first in range(0, len(indices), width)
    )


def _terms_are_closer(side: Operand, steps: Steps) -> bool:
    total, length = prod(side.axes), steps.length
    position, term = Axis("place", total), Axis("term", length)
    plain = Steps(steps.terms, steps.together, length)
    _, indices = plain.term(plain.at(Affine(0)), variable(term), 1)
    element = side.read(unravel(variable(position), side.axes), indices[0])
    load = next((one for one in walk([element]) if isinstance(one, Load)), None)
    if load is None:
        return False
    down, along = stride_along(load.index, position), stride_along(load.index, term)
    return along > 0 and (along <= down or down == 0)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbours that one lane fetches: so many, along the terms or along the rows or columns."""

    width: int
    along_terms: bool

    def shape(self, size: int, terms: int) -> tuple[int, int]:
        """Returns the number of runs along both axes; each run lies along the last one."""
        if self.along_terms:
            return size, terms // self.width
        return terms, size // self.width

    def slots(self, part: Index, side: Operand, terms: int) -> list[Affine]:
        """Returns the positions of a run's elements in the workgroup's memory."""
        outer, inner = part
        along = [inner * self.width + v for v in range(self.width)]
        places = [(outer, at) if self.along_terms else (at, outer) for at in along]
        return [side.slot(position, term, self, terms) for position, term in places]


def _spread(
    side: Operand, steps: Steps, lane: Axis, make: Expressions, run: _Run
) -> SharedMemoryTile:
    """Runs of neighbours shared out among the lanes, those of neighbouring lanes side by side."""
    shape = run.shape(side.size, steps.at_once)
    turns = prod(shape) // lane.size
    parts = [unravel(variable(lane) + lane.size * turn, shape) for turn in range(turns)]

    def fetch(step: Index) -> list[Expression]:
        found: list[Expression] = []
        for outer, inner in parts:
            position, term = (outer, inner) if run.along_terms else (inner, outer)
            counts, terms = steps.term(step, term, run.width if run.along_terms else 1)
            _, positions = side.positions(position, 1 if run.along_terms else run.width)
            found.extend(guarded(make, [counts], side.read(p, t)) for p in positions for t in terms)
        return found

    slots = [slot for part in parts for slot in run.slots(part, side, steps.at_once)]
    return SharedMemoryTile(side, tuple(slots), run.width, run.along_terms, fetch)


def multiply(
    emitter: WgslEmitter,
    tile: Tile,
    left: SharedMemoryBank,
    right: SharedMemoryBank,
    sums: str = "c",
    starts: tuple[str, str] = ("down", "across"),
) -> None:
    """All products of the terms in the workgroup's memory, written out term by term."""
    down, across = tile.rows // tile.rows_each, tile.columns // tile.columns_each
    for k in range(tile.terms):
        for i in range(tile.rows_each // 4):
            emitter.line(f"let x{k}_{i} = {left.four(starts[0], k * left.pitch + 4 * i * down)};")
        for j in range(tile.columns_each // 4):
            position = k * right.pitch + 4 * j * across
            emitter.line(f"let y{k}_{j} = {right.four(starts[1], position)};")
        for i in range(tile.rows_each):
            for j in range(tile.columns_each // 4):
                emitter.line(f"{sums}{i}_{j} += x{k}_{i // 4}.{'xyzw'[i % 4]} * y{k}_{j};")


def multiply_in_iterations(
    emitter: WgslEmitter, tile: Tile, left: SharedMemoryBank, right: SharedMemoryBank
) -> None:
    """The same products in the same order, of which each iteration of a loop has a few terms."""
    terms = next(count for count in (4, 2, 1) if tile.terms % count == 0)
    with emitter.block(f"for (var k = 0u; k < {tile.terms // terms}u; k++)"):
        emitter.line(f"let x = down + k * {terms * left.pitch}u;")
        emitter.line(f"let y = across + k * {terms * right.pitch}u;")
        multiply(emitter, replace(tile, terms=terms), left, right, starts=("x", "y"))
