"""Gather and scatter-add of rows."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import Gather, ScatterAdd
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import (
    Kind,
    Links,
    Reduction,
    Term,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import BoundsCheck, Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Reading, guarded, integer
from meganeura_runtime.backends.webgpu.ops.lowered import LinkedSum

READS: tuple[type[Op], ...] = (Gather,)
REDUCES: tuple[type[Op], ...] = (ScatterAdd, LinkedSum)


def read(reading: Reading, value: Value, index: Index) -> Expression:
    """The element of the row that an id names; zero where there is no such row."""
    match value.op:
        case Gather(axis=axis):
            table, ids = value.operands
            after = axis + ids.type.rank
            row = integer(reading.at(ids, index[axis:after]))
            guard = BoundsCheck(row, 1, concrete(table.type.shape[axis]))
            place = (*index[:axis], guard.index, *index[after:])
            return guarded(reading.make, [guard], reading.at(table, place))
        case op:
            raise TypeError(f"{op} reads no rows")


def reduction(value: Value) -> Reduction:
    """Each row sums the updates whose id is its number, in the order of the updates.

    There are no atomic sums of floats, and their order would change from run to run.
    """
    match value.op:
        case ScatterAdd(axis=axis):
            ids, updates = value.operands

            def term(reading: Reading, kept: Index, at: Index) -> Term:
                distance = integer(reading.at(ids, at)) - kept[axis]
                place = (*kept[:axis], *at, *kept[axis + 1 :])
                return Term(reading.at(updates, place), BoundsCheck(distance, 1, 1))

            return Reduction(Kind.SUM, (concrete_shape(ids.type.shape),), term)
        case LinkedSum(axis=axis):
            return _linked(axis, *value.operands)
        case op:
            raise TypeError(f"{op} adds no rows up")


def _linked(axis: int, first: Value, following: Value, updates: Value) -> Reduction:
    """The updates of a list, in its order, which is that of the updates."""

    def term(reading: Reading, kept: Index, at: Index) -> Term:
        return Term(reading.at(updates, (*kept[:axis], *at, *kept[axis + 1 :])))

    links = Links(
        lambda reading, kept: reading.at(first, (kept[axis],)),
        lambda reading, at: reading.at(following, at),
    )
    return Reduction(Kind.SUM, (concrete_shape(following.type.shape),), term, links)
