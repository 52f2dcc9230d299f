"""The kernel of a large contraction on a GPU: workgroups hold tiles of both factors in memory.

A workgroup computes a tile of the result in steps. In each step its lanes fetch a few terms of the
tile's rows and columns from memory into registers, put what the step before fetched where all lanes
can read it, and multiply. Each lane keeps `rows_each` x `columns_each` sums, columns four by four.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    result_of,
    vec4s_of,
    vec8s_of,
    write_results,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import (
    Contraction,
    OutputCoordinate,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.matmul.output_tile import LaneResults, shared_out
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    Operand,
    SharedMemoryTile,
    Steps,
    staged,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_core import (
    LaneCore,
    MatrixCore,
    TileCore,
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


def tiled_kernel(
    work: Work, memory: Memory, target: Target, contraction: Contraction, tile: Tile
) -> Kernel:
    """Sum the products of a tile together, then compute what is stored of each element."""
    before = memory.before(work)
    tile = _with_enough_lanes(contraction, tile, target, before)
    grid = _grid(contraction, tile)
    launch = Launch(prod(grid) * tile.lanes, tile.lanes, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    group, exists = launch.declare_group(emitter, "tile")
    lane = Axis("l", tile.lanes)
    emitter.axis(lane, "lane")
    place = unravel(variable(group), grid)
    which, column, row = place
    batch = unravel(which, contraction.batch)
    down, across = shared_out(tile, variable(lane))
    steps = Steps.of(contraction, tile.terms)
    core = core_of(contraction, tile, target)
    sides = _sides(contraction, tile, core, place, ElementInliner(make, before), lane)
    core.staged(sides)

    def coordinate(at: Index, beside: Index) -> OutputCoordinate:
        return contraction.coordinate(batch, at, beside)

    lanes = LaneResults(
        contraction.rows, contraction.columns, coordinate, tile, row, column, down, across
    )
    results = [
        result_of(make, work.stores, before, elements)
        for elements in lanes.elements(work.anchors[0], all_of(exists))
    ]
    reads = [one for side in sides for at in steps.written for one in side.fetch(at)]
    emitter.vec4s = vec4s_of(reads, memory, results)
    if 8 in core.widths:
        emitter.vec8s = vec8s_of(reads, memory, results)
    step = Axis("step", steps.count)
    reached = _reached(contraction, steps, batch, variable(step))
    _sum_products(emitter, core, steps, sides, (down, across), reached)
    write_results(emitter, memory, results)
    return launch.kernel(emitter, memory, core.shared())


def _grid(contraction: Contraction, tile: Tile) -> tuple[int, int, int]:
    """The tiles along the batch, the columns and the rows."""
    return (
        prod(contraction.batch),
        -(-prod(contraction.columns) // tile.columns),
        -(-prod(contraction.rows) // tile.rows),
    )


def _sides(
    contraction: Contraction,
    tile: Tile,
    core: TileCore,
    place: Index,
    reader: ElementInliner,
    lane: Axis,
) -> list[SharedMemoryTile]:
    """Both factors of the tile at a place of the grid, as lanes move them."""
    which, column, row = place
    batch = unravel(which, contraction.batch)

    def left(at: Index, term: Index) -> Expression:
        return contraction.left(reader, batch, at, term)

    def right(at: Index, term: Index) -> Expression:
        return contraction.right(reader, batch, at, term)

    operands = (
        ("left", tile.rows, row, contraction.rows, left),
        ("right", tile.columns, column, contraction.columns, right),
    )
    steps = Steps.of(contraction, tile.terms)
    return [
        staged(Operand(*each, core.gap, core.follows_runs, core.widths), steps, lane, reader.make)
        for each in operands
    ]


def _with_enough_lanes(
    contraction: Contraction, tile: Tile, target: Target, before: Mapping[int, int]
) -> Tile:
    """The tile, of twice the lanes where they fetch less than sixteen bytes of halves at once.

    What they fetch then takes so many registers that large parts of the tile find no room.
    """
    if target.limits.matrix_units is None or tile.rows_each <= 4:
        return tile
    core, lane = core_of(contraction, tile, target), Axis("l", tile.lanes)
    grid = _grid(contraction, tile)
    place = unravel(variable(Axis("tile", prod(grid))), grid)
    reader = ElementInliner(Expressions(), before)
    sides = _sides(contraction, tile, core, place, reader, lane)
    is_wide = all(side.width == max(core.widths) for side in sides)
    return tile if is_wide else replace(tile, rows_each=tile.rows_each // 2)


def core_of(contraction: Contraction, tile: Tile, target: Target) -> TileCore:
    """Returns the way in which a workgroup multiplies."""
    units = target.limits.matrix_units
    return LaneCore(tile, contraction) if units is None else MatrixCore(tile, units)


def _reached(
    contraction: Contraction, steps: Steps, batch: Index, step: Affine
) -> list[BoundsCheck]:
    """Returns guards without which a step adds nothing, equal for all lanes of a workgroup."""
    if contraction.reached is None or steps.together != contraction.together:
        return []
    _, (term,) = steps.term(steps.at(step), Affine(0), 1)
    guards = contraction.reached(batch, term)
    return [guard for guard in guards if not guard.always_holds]


def _sum_products(
    emitter: WgslEmitter,
    core: TileCore,
    steps: Steps,
    sides: Sequence[SharedMemoryTile],
    lanes: tuple[Affine, Affine],
    reached: Sequence[BoundsCheck],
) -> None:
    slots = [[emitter.index(slot) for slot in side.slots] for side in sides]
    first = [core.fetched(emitter, side, steps, steps.at(Affine(0))) for side in sides]
    core.begin(emitter)
    for side, values in zip(sides, first, strict=True):
        for number, value in enumerate(values):
            emitter.line(f"var {side.side.name}{number} = {value};")
    down, across = (emitter.index(lane * 4) for lane in lanes)
    emitter.line(f"let down = {down};")
    emitter.line(f"let across = {across};")
    axis = Axis("step", steps.count)
    with emitter.loop(axis):
        for side, positions in zip(sides, slots, strict=True):
            core.fill(emitter, side, positions)
        emitter.line("workgroupBarrier();")
        if steps.count > 1:
            _fetch_next(emitter, core, steps, sides)
        if reached:
            with emitter.condition(" && ".join(emitter.guard(guard) for guard in reached)):
                core.products(emitter)
        else:
            core.products(emitter)
        emitter.line("workgroupBarrier();")
    core.end(emitter)


def _fetch_next(
    emitter: WgslEmitter, core: TileCore, steps: Steps, sides: Sequence[SharedMemoryTile]
) -> None:
    """Start to read what the next step needs, so that it is there by then; the last reads again."""
    following = Axis("following", steps.count)
    emitter.axis(following, f"min(step + 1u, {steps.count - 1}u)")
    for side in sides:
        values = core.fetched(emitter, side, steps, steps.at(variable(following)))
        for number, value in enumerate(values):
            emitter.line(f"{side.side.name}{number} = {value};")
