"""The kernel of a contraction: each invocation sums the products of a tile of the result."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    result_of,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering import conv, matmul
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import (
    Contraction,
    OutputCoordinate,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import (
    subgroup_kernel,
    subgroup_tile_of,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import tile_of
from meganeura_runtime.backends.webgpu.codegen.matmul.tiled_matmul import tiled_kernel
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Expression,
    Index,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    ElementReader,
    Expressions,
    guarded,
)
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast, SplitKPartial

CONTRACTIONS: Mapping[type[Op], Callable[[Op, Value, Value], Contraction]] = {
    **dict.fromkeys(matmul.CONTRACTS, matmul.contraction),
    **dict.fromkeys(conv.CONTRACTS, conv.contraction),
    ChannelsLast: conv.turned,
}
"""Ops whose elements are sums of products."""


def contraction_of(value: Value) -> Contraction:
    """The factors and axes of a value; of a part of it, with the parts as a further batch axis."""
    match value.op:
        case SplitKPartial(whole=whole, parts=parts):
            return _split(named_contraction(whole, *value.operands), parts)
        case op:
            return named_contraction(op, *value.operands)


def named_contraction(op: Op, a: Value, b: Value) -> Contraction:
    """The contraction of two values, and what it is known by."""
    return replace(CONTRACTIONS[type(op)](op, a, b), name=f"{op} {a.type} {b.type}")


def _split(whole: Contraction, parts: int) -> Contraction:
    """The longest axis of the terms, cut into parts of one length."""
    axis = max(range(len(whole.terms)), key=whole.terms.__getitem__)
    size = whole.terms[axis]
    length = -(-size // parts)

    def original(at: Index, term: Index) -> tuple[BoundsCheck, Index]:
        guard = BoundsCheck(at[0] * length + term[axis], 1, size)
        return guard, (*term[:axis], guard.index, *term[axis + 1 :])

    def left(reading: ElementReader, at: Index, row: Index, term: Index) -> Expression:
        guard, term = original(at, term)
        return guarded(reading.make, [guard], whole.left(reading, at[1:], row, term))

    def right(reading: ElementReader, at: Index, column: Index, term: Index) -> Expression:
        return whole.right(reading, at[1:], column, original(at, term)[1])

    def coordinate(at: Index, row: Index, column: Index) -> OutputCoordinate:
        inner = whole.coordinate(at[1:], row, column)
        return OutputCoordinate((at[0], *inner.index), inner.guards)

    def reached(at: Index, term: Index) -> Sequence[BoundsCheck]:
        return [] if whole.reached is None else whole.reached(at[1:], original(at, term)[1])

    terms = (*whole.terms[:axis], length, *whole.terms[axis + 1 :])
    return replace(
        whole,
        batch=(parts, *whole.batch),
        terms=terms,
        left=left,
        right=right,
        coordinate=coordinate,
        reached=reached,
    )


@dataclass(frozen=True, slots=True)
class Tiling:
    """The part of the result of one invocation, and the number of terms per step."""

    rows: int
    columns: int
    terms: int
    workgroup: int


def tiling_of(contraction: Contraction, target: Target) -> Tiling:
    """A tile that keeps loads few, and is no larger than the result."""
    gpu = target.style is Style.GPU
    rows = _fitting(4 if gpu else 8, prod(contraction.rows))
    columns = _fitting(4, prod(contraction.columns))
    return Tiling(rows, columns, _unrolled(contraction.terms[-1]), 64 if gpu else 8)


def _fitting(most: int, size: int) -> int:
    """The largest power of two up to `most` of which not half would be wasted."""
    while most > 1 and most >= 2 * size:
        most //= 2
    return most


def _unrolled(size: int) -> int:
    """Returns the number of unrolled terms of the innermost loop: a divisor of them, at most 4."""
    return next(count for count in (4, 3, 2, 1) if size % count == 0)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The rows or columns of one invocation: their indices, and the guards of the surplus."""

    indices: tuple[Index, ...]
    guards: tuple[BoundsCheck, ...]

    @staticmethod
    def at(number: Affine, count: int, sizes: tuple[int, ...]) -> "_Tile":
        guards = tuple(
            BoundsCheck(number * count + position, 1, prod(sizes)) for position in range(count)
        )
        return _Tile(tuple(unravel(guard.index, sizes) for guard in guards), guards)


def contraction_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Sum the products of a tile in registers, then compute what is stored of each element."""
    anchor = work.anchors[0]
    contraction = contraction_of(anchor)
    tile = tile_of(contraction, target)
    if tile is not None:
        return tiled_kernel(work, memory, target, contraction, tile)
    shuffle = subgroup_tile_of(contraction, target)
    if shuffle is not None:
        return subgroup_kernel(work, memory, target, contraction, shuffle)
    tiling = tiling_of(contraction, target)
    tiles = (
        prod(contraction.batch),
        -(-prod(contraction.rows) // tiling.rows),
        -(-prod(contraction.columns) // tiling.columns),
    )
    launch = Launch(prod(tiles), tiling.workgroup, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    axis, exists = launch.declare(emitter, "t")
    which, row, column = unravel(variable(axis), tiles)
    batch = unravel(which, contraction.batch)
    rows = _Tile.at(row, tiling.rows, contraction.rows)
    columns = _Tile.at(column, tiling.columns, contraction.columns)
    before = memory.before(work)
    _sum_products(
        emitter, ElementInliner(make, before), contraction, tiling, (batch, rows, columns)
    )
    shape = concrete_shape(anchor.type.shape)
    for i, j in product(range(tiling.rows), range(tiling.columns)):
        at = contraction.coordinate(batch, rows.indices[i], columns.indices[j])
        guards = (*at.guards, rows.guards[i], columns.guards[j])
        position = ravel(at.index, shape)
        element = Element(position, {anchor.id: f"c{i}_{j}"}, all_of(exists), guards)
        write_result(emitter, memory, result_of(make, work.stores, before, [element]))
    return launch.kernel(emitter, memory)


def _sum_products(
    emitter: WgslEmitter,
    reader: ElementInliner,
    contraction: Contraction,
    tiling: Tiling,
    tile: tuple[Index, _Tile, _Tile],
) -> None:
    batch, rows, columns = tile
    sizes = (*contraction.terms[:-1], contraction.terms[-1] // tiling.terms)
    loops = [Axis(f"k{position}", size) for position, size in enumerate(sizes)]
    for i, j in product(range(tiling.rows), range(tiling.columns)):
        emitter.line(f"var c{i}_{j} = 0.0f;")
    with ExitStack() as stack:
        for loop in loops:
            if loop.size > 1:
                stack.enter_context(emitter.loop(loop))
        outer = tuple(_position(loop) for loop in loops[:-1])
        terms = [(*outer, _position(loops[-1]) * tiling.terms + u) for u in range(tiling.terms)]
        # All loads stand before all arithmetic, or software adapters spill every product.
        left = [
            [emitter.value(contraction.left(reader, batch, row, term)) for term in terms]
            for row in rows.indices
        ]
        right = [
            [emitter.value(contraction.right(reader, batch, column, term)) for term in terms]
            for column in columns.indices
        ]
        for i, j in product(range(tiling.rows), range(tiling.columns)):
            products = (f"{a} * {b}" for a, b in zip(left[i], right[j], strict=True))
            emitter.line(f"c{i}_{j} += {' + '.join(products)};")


def _position(loop: Axis) -> Affine:
    return variable(loop) if loop.size > 1 else Affine(0)
