"""The kernel of a large contraction on a GPU: workgroups hold tiles of both factors in memory.

A workgroup computes a tile of the result in steps. In each step its lanes fetch a few terms of the
tile's rows and columns from memory into registers, put what the step before fetched where all lanes
can read it, and multiply. Each lane keeps `rows_each` x `columns_each` sums, columns four by four.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ops.rules import concrete_shape
from meganeura_runtime.kernels.affine import (
    Affine,
    Axis,
    Expression,
    Guard,
    Index,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.kernels.contraction import Contraction
from meganeura_runtime.kernels.expression import Expressions, Load, guarded, walk
from meganeura_runtime.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    is_quad,
    quads_of,
    result_of,
    write_result,
)
from meganeura_runtime.kernels.limits import Target
from meganeura_runtime.kernels.reader import Reader
from meganeura_runtime.kernels.strides import stride_along
from meganeura_runtime.kernels.tile import Tile
from meganeura_runtime.kernels.writer import Writer

GAP = 4
"""Unused words between the terms of a tile, so that lanes write to different banks."""

Read = Callable[[Index, Index], Expression]
"""A factor, at an index of its rows or columns and of the terms."""


def tiled_kernel(
    work: Work, memory: Memory, target: Target, contraction: Contraction, tile: Tile
) -> Kernel:
    """Sum the products of a tile together, then compute what is stored of each element."""
    grid = (
        prod(contraction.batch),
        -(-prod(contraction.columns) // tile.columns),
        -(-prod(contraction.rows) // tile.rows),
    )
    launch = Launch(prod(grid) * tile.lanes, tile.lanes, target)
    writer, make = Writer(), Expressions()
    group, exists = launch.declare_group(writer, "tile")
    lane = Axis("l", tile.lanes)
    writer.axis(lane, "lane")
    which, column, row = unravel(variable(group), grid)
    batch = unravel(which, contraction.batch)
    down, across = _lanes(tile, variable(lane))
    before = memory.before(work)
    reader = Reader(make, before)
    steps = _Steps.of(contraction, tile.terms)

    def left(at: Index, term: Index) -> Expression:
        return contraction.left(reader, batch, at, term)

    def right(at: Index, term: Index) -> Expression:
        return contraction.right(reader, batch, at, term)

    sides = [
        _staged(side, steps, lane, make)
        for side in (
            _Side("left", tile.rows, row, contraction.rows, left),
            _Side("right", tile.columns, column, contraction.columns, right),
        )
    ]
    places = _Places(contraction, batch, tile, row, column, down, across)
    results = [
        result_of(make, work.stores, before, elements)
        for elements in places.elements(work, all_of(exists))
    ]
    reads = [one for side in sides for one in side.fetch(steps.at(Affine(0)))]
    writer.quads = quads_of(reads, memory, results)
    _sum_products(writer, tile, steps, sides, (down, across))
    for result in results:
        write_result(writer, memory, result)
    shared = [
        f"var<workgroup> {side.side.name}: array<f32, {tile.terms * side.side.pitch}>;"
        for side in sides
    ]
    return launch.kernel(writer, memory, shared)


def _lanes(tile: Tile, lane: Affine) -> tuple[Affine, Affine]:
    """The lane's place down and across the tile: blocks of 4 x 8 lanes read the same few words."""
    down, across = tile.rows // tile.rows_each, tile.columns // tile.columns_each
    few, many = min(4, down), min(8, across)
    outer, middle, inner, last = unravel(lane, (down // few, across // many, few, many))
    return outer * few + inner, middle * many + last


@dataclass(frozen=True, slots=True)
class _Steps:
    """The terms, cut into steps: some of the axes `together` in each, the others one by one."""

    terms: tuple[int, ...]
    together: tuple[int, ...]
    at_once: int

    @staticmethod
    def of(contraction: Contraction, at_once: int) -> "_Steps":
        every = tuple(range(len(contraction.terms)))
        together = every if contraction.together is None else contraction.together
        size = prod(contraction.terms[axis] for axis in together)
        wasted = -size % at_once
        return _Steps(contraction.terms, every if 4 * wasted > size else together, at_once)

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
        """How many steps there are."""
        return prod(self._grid)

    def at(self, step: Affine) -> Index:
        """The step's block, and its place along each of the other axes."""
        return unravel(step, self._grid)

    def term(self, step: Index, number: Affine, width: int) -> tuple[Guard, list[Index]]:
        """Neighbouring terms of a step, from the `number`-th `width` of them on."""
        block, *others = step
        guard = Guard(block * (self.at_once // width) + number, 1, self.length // width)
        places = dict(zip(self._others, others, strict=True))
        found: list[Index] = []
        for place in range(width):
            inside = unravel(guard.index * width + place, self._sizes)
            both = places | dict(zip(self.together, inside, strict=True))
            found.append(tuple(both[axis] for axis in range(len(self.terms))))
        return guard, found


@dataclass(frozen=True, slots=True)
class _Side:
    """A factor, and the part of it that belongs to a tile."""

    name: str
    size: int
    tile: Affine
    axes: tuple[int, ...]
    read: Read

    @property
    def pitch(self) -> int:
        """Words from one term to the next in the workgroup's memory."""
        return self.size + GAP

    def places(self, number: Affine, width: int) -> tuple[Guard, list[Index]]:
        """Neighbouring rows or columns of the tile; the first of all where there are no more."""
        total = prod(self.axes)
        guard = Guard(self.tile * (self.size // width) + number, 1, total // width)
        return guard, [unravel(guard.index * width + v, self.axes) for v in range(width)]


@dataclass(frozen=True, slots=True)
class _Staged:
    """What each lane moves of a factor in a step: where to, and a way to read it."""

    side: _Side
    slots: tuple[Affine, ...]
    fetch: Callable[[Index], list[Expression]]


def _staged(side: _Side, steps: _Steps, lane: Axis, make: Expressions) -> _Staged:
    """Lanes lie along the axis that is contiguous in memory, and take four elements if they can."""
    along_terms = _terms_are_closer(side, steps)
    divisible = (steps.length if along_terms else prod(side.axes)) % 4 == 0
    if divisible:
        staged = _spread(side, steps, lane, make, _Run(4, along_terms))
        if _are_quads(staged.fetch(steps.at(Affine(0)))):
            return staged
    return _spread(side, steps, lane, make, _Run(1, along_terms))


def _are_quads(elements: Sequence[Expression]) -> bool:
    """Whether the elements are read four neighbours at a time."""
    loads = [next((e for e in walk([one]) if isinstance(e, Load)), None) for one in elements]
    indices = [load.index for load in loads if load is not None]
    return len(indices) == len(elements) and all(
        is_quad(indices[first : first + 4]) for first in range(0, len(indices), 4)
    )


def _terms_are_closer(side: _Side, steps: _Steps) -> bool:
    total, length = prod(side.axes), steps.length
    place, term = Axis("place", total), Axis("term", length)
    plain = _Steps(steps.terms, steps.together, length)
    _, indices = plain.term(plain.at(Affine(0)), variable(term), 1)
    element = side.read(unravel(variable(place), side.axes), indices[0])
    load = next((one for one in walk([element]) if isinstance(one, Load)), None)
    if load is None:
        return False
    down, along = stride_along(load.index, place), stride_along(load.index, term)
    return along > 0 and (along <= down or down == 0)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbours that one lane fetches: so many, along the terms or along the rows or columns."""

    width: int
    along_terms: bool

    def shape(self, size: int, terms: int) -> tuple[int, int]:
        """How many runs there are along both axes, the one they lie along last."""
        if self.along_terms:
            return size, terms // self.width
        return terms, size // self.width

    def slots(self, part: Index, pitch: int) -> list[Affine]:
        """Where in the workgroup's memory the elements of a run go."""
        outer, inner = part
        along = [inner * self.width + v for v in range(self.width)]
        return [at * pitch + outer if self.along_terms else outer * pitch + at for at in along]


def _spread(side: _Side, steps: _Steps, lane: Axis, make: Expressions, run: _Run) -> _Staged:
    """Runs of neighbours shared out among the lanes, those of neighbouring lanes side by side."""
    shape = run.shape(side.size, steps.at_once)
    turns = prod(shape) // lane.size
    parts = [unravel(variable(lane) + lane.size * turn, shape) for turn in range(turns)]

    def fetch(step: Index) -> list[Expression]:
        found: list[Expression] = []
        for outer, inner in parts:
            place, term = (outer, inner) if run.along_terms else (inner, outer)
            counts, terms = steps.term(step, term, run.width if run.along_terms else 1)
            _, places = side.places(place, 1 if run.along_terms else run.width)
            found.extend(guarded(make, [counts], side.read(p, t)) for p in places for t in terms)
        return found

    slots = [slot for part in parts for slot in run.slots(part, side.pitch)]
    return _Staged(side, tuple(slots), fetch)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the elements of a tile lie in the result."""

    contraction: Contraction
    batch: Index
    tile: Tile
    row: Affine
    column: Affine
    down: Affine
    across: Affine

    def elements(self, work: Work, exists: Sequence[str]) -> list[list[Element]]:
        """The elements of a lane, those together that exist together."""
        shape = concrete_shape(work.anchors[0].type.shape)
        found: list[list[Element]] = []
        for i in range(self.tile.rows_each):
            above, row = self._row(i)
            for j in range(self.tile.columns_each // 4):
                for beside, columns, first in self._columns(j):
                    group: list[Element] = []
                    for v, column in enumerate(columns, first):
                        place = self.contraction.place(self.batch, row, column)
                        registers = {work.anchors[0].id: f"c{i}_{j}.{'xyzw'[v]}"}
                        guards = (*place.guards, above, beside)
                        position = ravel(place.index, shape)
                        group.append(Element(position, registers, exists, guards))
                    found.extend(_together(group))
        return found

    def _row(self, i: int) -> tuple[Guard, Index]:
        down = self.tile.rows // self.tile.rows_each
        quad = self.row * (self.tile.rows // 4) + self.down + i // 4 * down
        total = prod(self.contraction.rows)
        if total % 4 == 0:
            guard = Guard(quad, 1, total // 4)
            return guard, unravel(guard.index * 4 + i % 4, self.contraction.rows)
        guard = Guard(quad * 4 + i % 4, 1, total)
        return guard, unravel(guard.index, self.contraction.rows)

    def _columns(self, j: int) -> list[tuple[Guard, list[Index], int]]:
        across = self.tile.columns // self.tile.columns_each
        quad = self.column * (self.tile.columns // 4) + self.across + j * across
        sizes = self.contraction.columns
        if prod(sizes) % 4 == 0:
            guard = Guard(quad, 1, prod(sizes) // 4)
            return [(guard, [unravel(guard.index * 4 + v, sizes) for v in range(4)], 0)]
        guards = [Guard(quad * 4 + v, 1, prod(sizes)) for v in range(4)]
        return [(guard, [unravel(guard.index, sizes)], v) for v, guard in enumerate(guards)]


def _together(group: list[Element]) -> list[list[Element]]:
    """The elements in one, if they exist under the same conditions."""
    same = all(set(one.guards) == set(group[0].guards) for one in group)
    return [group] if same else [[one] for one in group]


def _sum_products(
    writer: Writer,
    tile: Tile,
    steps: _Steps,
    sides: Sequence[_Staged],
    lanes: tuple[Affine, Affine],
) -> None:
    slots = [[writer.index(slot) for slot in side.slots] for side in sides]
    first = [[writer.value(one) for one in side.fetch(steps.at(Affine(0)))] for side in sides]
    for i in range(tile.rows_each):
        for j in range(tile.columns_each // 4):
            writer.line(f"var c{i}_{j} = vec4<f32>();")
    for side, values in zip(sides, first, strict=True):
        for number, value in enumerate(values):
            writer.line(f"var {side.side.name}{number} = {value};")
    bases = [writer.index(lane * 4) for lane in lanes]
    writer.line(f"let down = {bases[0]};")
    writer.line(f"let across = {bases[1]};")
    axis = Axis("step", steps.count)
    with writer.loop(axis):
        for side, places in zip(sides, slots, strict=True):
            for number, place in enumerate(places):
                writer.line(f"{side.side.name}[{place}] = {side.side.name}{number};")
        writer.line("workgroupBarrier();")
        if steps.count > 1:
            _fetch_next(writer, steps, sides)
        _multiply(writer, tile, sides)
        writer.line("workgroupBarrier();")


def _fetch_next(writer: Writer, steps: _Steps, sides: Sequence[_Staged]) -> None:
    """Start to read what the next step needs, so that it is there by then; the last reads again."""
    following = Axis("following", steps.count)
    writer.axis(following, f"min(step + 1u, {steps.count - 1}u)")
    for side in sides:
        elements = side.fetch(steps.at(variable(following)))
        values = [writer.value(element) for element in elements]
        for number, value in enumerate(values):
            writer.line(f"{side.side.name}{number} = {value};")


def _multiply(writer: Writer, tile: Tile, sides: Sequence[_Staged]) -> None:
    """All products of the terms in the workgroup's memory, written out term by term."""
    left, right = (staged.side for staged in sides)
    down, across = tile.rows // tile.rows_each, tile.columns // tile.columns_each
    for k in range(tile.terms):
        for i in range(tile.rows_each // 4):
            writer.line(f"let x{k}_{i} = {_four(left, 'down', k, 4 * i * down)};")
        for j in range(tile.columns_each // 4):
            writer.line(f"let y{k}_{j} = {_four(right, 'across', k, 4 * j * across)};")
        for i in range(tile.rows_each):
            for j in range(tile.columns_each // 4):
                writer.line(f"c{i}_{j} += x{k}_{i // 4}.{'xyzw'[i % 4]} * y{k}_{j};")


def _four(side: _Side, base: str, term: int, start: int) -> str:
    words = (f"{side.name}[{base} + {term * side.pitch + start + v}u]" for v in range(4))
    return f"vec4<f32>({', '.join(words)})"
