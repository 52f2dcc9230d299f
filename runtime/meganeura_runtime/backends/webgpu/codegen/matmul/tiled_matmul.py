"""The kernel of a large contraction on a GPU: workgroups hold tiles of both factors in memory.

A workgroup computes a tile of the result in steps. In each step its lanes fetch a few terms of the
tile's rows and columns from memory into registers, put what the step before fetched where all lanes
can read it, and multiply. Each lane keeps `rows_each` x `columns_each` sums, columns four by four.
"""

from collections.abc import Sequence
from math import prod

from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    result_of,
    vec4s_of,
    write_result,
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
    grid = (
        prod(contraction.batch),
        -(-prod(contraction.columns) // tile.columns),
        -(-prod(contraction.rows) // tile.rows),
    )
    launch = Launch(prod(grid) * tile.lanes, tile.lanes, target)
    emitter, make = WgslEmitter(), Expressions()
    group, exists = launch.declare_group(emitter, "tile")
    lane = Axis("l", tile.lanes)
    emitter.axis(lane, "lane")
    which, column, row = unravel(variable(group), grid)
    batch = unravel(which, contraction.batch)
    down, across = shared_out(tile, variable(lane))
    before = memory.before(work)
    reader = ElementInliner(make, before)
    steps = Steps.of(contraction, tile.terms)

    def left(at: Index, term: Index) -> Expression:
        return contraction.left(reader, batch, at, term)

    def right(at: Index, term: Index) -> Expression:
        return contraction.right(reader, batch, at, term)

    core = core_of(contraction, tile, target)
    sides = [
        staged(side, steps, lane, make)
        for side in (
            Operand(name, size, place, axes, read, core.gap, core.follows_runs)
            for name, size, place, axes, read in (
                ("left", tile.rows, row, contraction.rows, left),
                ("right", tile.columns, column, contraction.columns, right),
            )
        )
    ]

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
    step = Axis("step", steps.count)
    reached = _reached(contraction, steps, batch, variable(step))
    _sum_products(emitter, core, steps, sides, (down, across), reached)
    for result in results:
        write_result(emitter, memory, result)
    return launch.kernel(emitter, memory, core.shared())


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
    first = [[emitter.value(one) for one in side.fetch(steps.at(Affine(0)))] for side in sides]
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
            _fetch_next(emitter, steps, sides)
        if reached:
            with emitter.condition(" && ".join(emitter.guard(guard) for guard in reached)):
                core.products(emitter)
        else:
            core.products(emitter)
        emitter.line("workgroupBarrier();")
    core.end(emitter)


def _fetch_next(emitter: WgslEmitter, steps: Steps, sides: Sequence[SharedMemoryTile]) -> None:
    """Start to read what the next step needs, so that it is there by then; the last reads again."""
    following = Axis("following", steps.count)
    emitter.axis(following, f"min(step + 1u, {steps.count - 1}u)")
    for side in sides:
        elements = side.fetch(steps.at(variable(following)))
        values = [emitter.value(element) for element in elements]
        for number, value in enumerate(values):
            emitter.line(f"{side.side.name}{number} = {value};")
