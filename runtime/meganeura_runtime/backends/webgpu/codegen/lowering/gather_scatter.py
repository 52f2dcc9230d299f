"""Gather and scatter of rows, and parts that begin where whole numbers say."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import DynamicSlice, DynamicUpdate, Gather, ScatterAdd, ScatterExtreme
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import (
    Kind,
    Links,
    Reduction,
    Term,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import BoundsCheck, Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    ElementReader,
    guarded,
    integer,
)
from meganeura_runtime.backends.webgpu.ops.lowered import LinkedReduction

READS: tuple[type[Op], ...] = (Gather, DynamicSlice, DynamicUpdate)
REDUCES: tuple[type[Op], ...] = (ScatterAdd, ScatterExtreme, LinkedReduction)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """The element of the row that an id names, zero where there is no such row, or of a part."""
    match value.op:
        case Gather(axis=axis, batch=batch):
            table, ids = value.operands
            after = axis + ids.type.rank - batch
            row = integer(reading.at(ids, (*index[:batch], *index[axis:after])))
            guard = BoundsCheck(row, 1, concrete(table.type.shape[axis]))
            position = (*index[:axis], guard.index, *index[after:])
            return guarded(reading.make, [guard], reading.at(table, position))
        case DynamicSlice():
            x, *starts = value.operands
            firsts = (integer(reading.at(start, ())) for start in starts)
            position = tuple(first + at for first, at in zip(firsts, index, strict=True))
            return reading.at(x, position)
        case DynamicUpdate():
            x, part, *starts = value.operands
            firsts = (integer(reading.at(start, ())) for start in starts)
            axes = zip(firsts, index, concrete_shape(part.type.shape), strict=True)
            guards = [BoundsCheck(at - first, 1, size) for first, at, size in axes]
            found = reading.at(part, tuple(guard.index for guard in guards))
            for guard in guards:
                found = reading.make.choice(guard, found, reading.at(x, index))
            return found
        case op:
            raise TypeError(f"{op} reads no rows")


def reduction(value: Value) -> Reduction:
    """Each row combines the updates whose id is its number, in the order of the updates.

    There are no atomic sums of floats, and their order would change from run to run.
    """
    match value.op:
        case ScatterAdd(axis=axis, batch=batch):
            return _scattered(Kind.SUM, axis, batch, *value.operands)
        case ScatterExtreme(kind=kind, axis=axis, batch=batch):
            return _scattered(Kind(kind), axis, batch, *value.operands)
        case LinkedReduction(kind=kind, axis=axis):
            return _linked(Kind(kind), axis, *value.operands)
        case op:
            raise TypeError(f"{op} combines no rows")


def _scattered(kind: Kind, axis: int, batch: int, ids: Value, updates: Value) -> Reduction:
    def term(reading: ElementReader, kept: Index, at: Index) -> Term:
        distance = integer(reading.at(ids, (*kept[:batch], *at))) - kept[axis]
        position = (*kept[:axis], *at, *kept[axis + 1 :])
        return Term(reading.at(updates, position), BoundsCheck(distance, 1, 1))

    return Reduction(kind, (concrete_shape(ids.type.shape[batch:]),), term)


def _linked(kind: Kind, axis: int, first: Value, following: Value, updates: Value) -> Reduction:
    """The updates of a list, in its order, which is that of the updates."""

    def term(reading: ElementReader, kept: Index, at: Index) -> Term:
        return Term(reading.at(updates, (*kept[:axis], *at, *kept[axis + 1 :])))

    links = Links(
        lambda reading, kept: reading.at(first, (kept[axis],)),
        lambda reading, at: reading.at(following, at),
    )
    return Reduction(kind, (concrete_shape(following.type.shape),), term, links)
