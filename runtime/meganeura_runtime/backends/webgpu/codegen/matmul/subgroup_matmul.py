"""The kernel of a contraction on software Vulkan: lanes share rows by subgroup shuffles.

Such adapters run the lanes of a subgroup as one vector, but load memory for each lane alone, and
have no shared memory that is faster. So each lane loads a few rows and its own columns, and gets
the other lanes' rows by shuffles, which cost next to nothing. A workgroup is one subgroup.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import assert_never

from meganeura_dsl.ir.ops.type_rules import concrete_shape
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
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Expression,
    Index,
    Inside,
    Loaded,
    Quotient,
    Remainder,
    atoms,
    bounds,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    Choice,
    Expressions,
    Literal,
    Load,
    walk,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.strides import stride_along
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

MOST_ROWS = 16
"""Rows of a workgroup, unless the contraction is large."""
MEDIUM, LARGE = 1e7, 3e7
"""Products of a contraction for which twice and four times as many sums are worth it.

Four times are twice the rows of twice the columns a lane, if there are columns for all lanes.
Kernels compute half as fast again, and compile for longer.
"""
MOST_ACCESSES = 256
"""Loads and stores after the sums up to which each row has its own; beyond, a loop compiles sooner.

A loop over the sums costs as much as the loads and stores in it.
"""
VEC4 = 4
"""Neighbouring columns that a lane computes as one vector."""


@dataclass(frozen=True, slots=True)
class SubgroupTile:
    """The tile of one workgroup, and the number of terms that it takes at once."""

    rows: int
    lanes: int
    terms: int
    vec4s: int
    """Columns of a lane, in fours."""

    def grid(self, contraction: Contraction) -> tuple[int, int, int]:
        """Workgroups along the batch, the columns and the rows."""
        rows = -(-prod(contraction.rows) // self.rows)
        columns = -(-prod(contraction.columns) // (VEC4 * self.vec4s * self.lanes))
        return prod(contraction.batch), columns, rows


def subgroup_tile_of(contraction: Contraction, target: Target) -> SubgroupTile | None:
    """Returns the tile by which lanes share the work, on an adapter with tested shuffles."""
    lanes = target.limits.lanes
    if target.style is not Style.SOFTWARE_VULKAN or not lanes:
        return None
    terms = next(count for count in (4, 3, 2, 1) if contraction.terms[-1] % count == 0)
    config = target.configs.get(contraction.name)
    if config is not None:
        return None if config.rows is None else SubgroupTile(config.rows, lanes, terms, 1)
    total, columns = prod(contraction.rows), prod(contraction.columns)
    products = prod(contraction.batch) * total * columns * contraction.count
    most, vec4s = (2 * MOST_ROWS if products >= MEDIUM else MOST_ROWS), 1
    if products >= LARGE:
        wide = columns % (2 * VEC4) == 0 and -(-columns // (VEC4 * lanes)) % 2 == 0
        most, vec4s = (2 * MOST_ROWS, 2) if wide else (4 * MOST_ROWS, 1)
    blocks = -(-total // most)
    return SubgroupTile(-(-total // blocks), lanes, terms, vec4s)


def subgroup_kernel(
    work: Work, memory: Memory, target: Target, contraction: Contraction, shuffle: SubgroupTile
) -> Kernel:
    """Sum the products of some rows and each lane's columns, then compute what is stored."""
    grid = shuffle.grid(contraction)
    launch = Launch(prod(grid) * shuffle.lanes, shuffle.lanes, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    group, exists = launch.declare_group(emitter, "tile")
    lane = Axis("l", shuffle.lanes)
    emitter.axis(lane, "lane")
    which, column, row = _tile_origin(variable(group), grid, contraction)
    batch = unravel(which, contraction.batch)
    before = memory.before(work)
    rows = _Rows(contraction.rows, shuffle, row, _in_fours(contraction, shuffle, before))
    vec4 = (column * shuffle.lanes + variable(lane)) * shuffle.vec4s
    columns = [
        one
        for position in range(shuffle.vec4s)
        for one in _columns(contraction.columns, vec4 + position)
    ]
    reader = ElementInliner(make, before)
    loops, terms = _loops(contraction, shuffle.terms)
    left = [
        [contraction.left(reader, batch, index, term) for term in terms]
        for index in rows.fetched(variable(lane))
    ]
    right = [
        [contraction.right(reader, batch, index, term) for term in terms] for index, _ in columns
    ]
    counter = Axis("row", shuffle.rows)

    def results(row: Affine, sums: str) -> list[Result]:
        positions = batch, rows.computed(row), columns
        elements = _elements(work, contraction, positions, sums, all_of(exists))
        return [result_of(make, work.stores, before, group) for group in elements]

    of_any_row = results(variable(counter), "sum")
    reads = [one for side in (*left, *right) for one in side]
    emitter.vec4s = vec4s_of(reads, memory, of_any_row)
    _sum_products(emitter, loops, rows, left, right, lane)
    if shuffle.rows * _accesses(of_any_row, memory, emitter.vec4s) <= MOST_ACCESSES:
        for number in range(shuffle.rows):
            for result in results(Affine(number), f"c{number}_"):
                write_result(emitter, memory, result)
        return launch.kernel(emitter, memory)
    for vec4 in range(shuffle.vec4s):
        sums = ", ".join(f"c{number}_{vec4}" for number in range(shuffle.rows))
        emitter.line(f"var sums{vec4} = array<vec4<f32>, {shuffle.rows}>({sums});")
    with emitter.loop(counter):
        for vec4 in range(shuffle.vec4s):
            emitter.register(f"sum{vec4}", f"sums{vec4}[row]")
        for result in of_any_row:
            write_result(emitter, memory, result)
    return launch.kernel(emitter, memory)


def _tile_origin(group: Affine, grid: tuple[int, int, int], contraction: Contraction) -> Index:
    """Returns the origin of a workgroup's tile; a core gets those of one half of the grid.

    So what takes fewer terms for some of the batch than for others goes through it first.
    """
    if contraction.reached is None:
        return unravel(group, grid)
    column, row, which = unravel(group, (*grid[1:], grid[0]))
    return which, column, row


def _accesses(results: Sequence[Result], memory: Memory, vec4s: Collection[int]) -> float:
    """Returns the number of memory accesses for results; four neighbours count as one."""
    expressions = [one for result in results for row in result.expressions for one in row]
    tensors = [one.tensor for one in walk(expressions) if isinstance(one, Load)]
    for result in results:
        tensors += [memory.tensors[value.id] for value in result.values for _ in result.elements]
    return sum(1 / VEC4 if tensor in vec4s else 1 for tensor in tensors)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a workgroup: all lanes compute all of them, and each fetches every n-th.

    Where rows lie next to each other in memory, each lane fetches every n-th four of them.
    """

    sizes: tuple[int, ...]
    shuffle: SubgroupTile
    block: Affine
    in_fours: bool

    @property
    def total(self) -> int:
        """Rows of the whole result."""
        return prod(self.sizes)

    def fetched(self, lane: Affine) -> list[Index]:
        """The rows that a lane fetches; the first of all in place of one that does not exist."""
        each = VEC4 if self.in_fours else 1
        turns = -(-self.shuffle.rows // (self.shuffle.lanes * each))
        first = self.block * (self.shuffle.rows // each) + lane
        guards = [
            BoundsCheck(first + turn * self.shuffle.lanes, 1, self.total // each)
            for turn in range(turns)
        ]
        positions = [guard.index * each + position for guard in guards for position in range(each)]
        return [unravel(position, self.sizes) for position in positions]

    def source(self, row: int) -> tuple[int, int]:
        """Returns the number of a workgroup's row among those a lane fetched, and the lane."""
        if not self.in_fours:
            return divmod(row, self.shuffle.lanes)
        turn, within = divmod(row, VEC4 * self.shuffle.lanes)
        lane, position = divmod(within, VEC4)
        return VEC4 * turn + position, lane

    def computed(self, row: Affine) -> tuple[Index, BoundsCheck]:
        """One of the rows of the workgroup."""
        guard = BoundsCheck(self.block * self.shuffle.rows + row, 1, self.total)
        return unravel(guard.index, self.sizes), guard


def _in_fours(contraction: Contraction, shuffle: SubgroupTile, before: Mapping[int, int]) -> bool:
    """True if rows lie next to each other in memory, rather than terms, and so for all lanes."""
    total = prod(contraction.rows)
    if shuffle.rows % VEC4 or total % VEC4:
        return False
    row, axes = Axis("row", total), _axes("k", contraction.terms)
    element = contraction.left(
        ElementInliner(Expressions(), before),
        tuple(map(variable, _axes("b", contraction.batch))),
        unravel(variable(row), contraction.rows),
        tuple(map(variable, axes)),
    )
    loads = (one for one in walk([element]) if isinstance(one, Load))
    strides = [(stride_along(one.index, row), stride_along(one.index, axes[-1])) for one in loads]
    return any(down == 1 != along for down, along in strides)


def _axes(name: str, sizes: tuple[int, ...]) -> list[Axis]:
    return [Axis(f"{name}{position}", size) for position, size in enumerate(sizes)]


def _columns(sizes: tuple[int, ...], vec4: Affine) -> list[tuple[Index, BoundsCheck]]:
    """The columns of a lane: four neighbours that exist together, where that is so for all."""
    total = prod(sizes)
    if total % VEC4:
        guards = [BoundsCheck(vec4 * VEC4 + position, 1, total) for position in range(VEC4)]
        return [(unravel(guard.index, sizes), guard) for guard in guards]
    guard = BoundsCheck(vec4, 1, total // VEC4)
    positions = [guard.index * VEC4 + position for position in range(VEC4)]
    return [(unravel(position, sizes), guard) for position in positions]


def _loops(contraction: Contraction, at_once: int) -> tuple[list[Axis], list[Index]]:
    """A loop for each axis of the terms, and the terms that one turn of all of them takes."""
    *outer, last = contraction.terms
    loops = [Axis(f"k{position}", size) for position, size in enumerate((*outer, last // at_once))]
    *positions, base = [variable(loop) if loop.size > 1 else Affine(0) for loop in loops]
    terms = [(*positions, base * at_once + position) for position in range(at_once)]
    return [loop for loop in loops if loop.size > 1], terms


def _elements(
    work: Work,
    contraction: Contraction,
    positions: tuple[Index, tuple[Index, BoundsCheck], Sequence[tuple[Index, BoundsCheck]]],
    sums: str,
    exists: Sequence[str],
) -> list[list[Element]]:
    """The elements of a lane in one of its rows, those together that exist together."""
    anchor = work.anchors[0]
    shape = concrete_shape(anchor.type.shape)
    batch, (row, above), columns = positions
    group: list[Element] = []
    for position, (column, beside) in enumerate(columns):
        at = contraction.coordinate(batch, row, column)
        registers = {anchor.id: f"{sums}{position // VEC4}.{'xyzw'[position % VEC4]}"}
        guards = tuple(one for one in (*at.guards, above, beside) if not one.always_holds)
        group.append(Element(ravel(at.index, shape), registers, exists, guards))
    vec4s = [group[start : start + VEC4] for start in range(0, len(group), VEC4)]
    return [part for vec4 in vec4s for part in _existing(vec4)]


def _existing(vec4: list[Element]) -> list[list[Element]]:
    """Four neighbours as one group if they exist together, and as four groups else."""
    same = all(one.guards == vec4[0].guards for one in vec4)
    return [vec4] if same else [[one] for one in vec4]


def _sum_products(
    emitter: WgslEmitter,
    loops: Sequence[Axis],
    rows: _Rows,
    left: Sequence[Sequence[Expression]],
    right: Sequence[Sequence[Expression]],
    lane: Axis,
) -> None:
    shuffle = rows.shuffle
    for row in range(shuffle.rows):
        for vec4 in range(shuffle.vec4s):
            emitter.line(f"var c{row}_{vec4} = vec4<f32>();")
    with ExitStack() as stack:
        ends = [*_common_guards(left), *_common_guards(right)]
        for depth, loop in enumerate(loops):
            stack.enter_context(emitter.loop(loop))
            for guard in ends:
                if _fails_for_good(guard, loop, {lane, *loops[depth:]}):
                    emitter.line(f"if (!{emitter.guard(guard)}) {{ break; }}")
        # All loads stand before all arithmetic, or the compiler spills every product.
        fetched = [[emitter.value(one) for one in terms] for terms in left]
        columns = [[emitter.value(one) for one in terms] for terms in right]
        for term in range(shuffle.terms):
            for vec4 in range(shuffle.vec4s):
                four = ", ".join(column[term] for column in columns[VEC4 * vec4 :][:VEC4])
                emitter.line(f"let y{term}_{vec4} = vec4<f32>({four});")
        for row in range(shuffle.rows):
            position, source = rows.source(row)
            for term in range(shuffle.terms):
                name = fetched[position][term]
                emitter.line(f"let x{row}_{term} = subgroupShuffle({name}, {source}u);")
            for vec4 in range(shuffle.vec4s):
                products = (f"x{row}_{term} * y{term}_{vec4}" for term in range(shuffle.terms))
                emitter.line(f"c{row}_{vec4} += {' + '.join(products)};")


def _common_guards(factor: Sequence[Sequence[Expression]]) -> list[BoundsCheck]:
    """Returns guards without which all elements of a factor are zero, so that the rest is skipped.

    So the phases of a strided convolution's gradient take only the taps they have.
    """
    first, *others = [set(_guards(one)) for terms in factor for one in terms]
    return sorted(first.intersection(*others), key=repr)


def _fails_for_good(guard: BoundsCheck, loop: Axis, inside: Collection[Axis]) -> bool:
    """True if a guard that fails for a value of a loop fails for all after it, for any lane."""
    step = dict(guard.position.terms).get(loop, 0)
    grows = guard.step == 1 and step > 0 and bounds(guard.position)[0] >= 0
    return grows and _is_free_of(guard.position - variable(loop) * step, inside)


def _is_free_of(index: Affine, axes: Collection[Axis]) -> bool:
    """True if an index surely depends on none of these axes."""
    for atom in atoms(index):
        match atom:
            case Axis():
                free = atom not in axes
            case Quotient(part, _) | Remainder(part, _) | Inside(BoundsCheck(position=part)):
                free = _is_free_of(part, axes)
            case Loaded():
                free = False
            case _:
                assert_never(atom)
        if not free:
            return False
    return True


def _guards(expression: Expression) -> Iterator[BoundsCheck]:
    """Yields the guards without which an element is zero."""
    while isinstance(expression, Choice) and _is_zero(expression.outside):
        yield expression.guard
        expression = expression.inside


def _is_zero(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value == 0
