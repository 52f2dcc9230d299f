"""Rows of a table gathered, added up or compared by ids; gather and scatter-add are adjoint."""

from dataclasses import dataclass
from math import prod
from typing import Literal, assert_never

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.ops.primitive.elementwise import Compare, Where
from meganeura_dsl.ir.ops.primitive.leaf import Iota
from meganeura_dsl.ir.ops.primitive.movement import Reshape
from meganeura_dsl.ir.ops.type_rules import (
    INTEGERS,
    NUMBERS,
    concrete,
    require_at_least,
    require_axes,
    require_dtype,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Size, product

__all__ = ["Gather", "ScatterAdd", "ScatterExtreme"]


Extreme = Literal["max", "min"]
Combination = Literal["sum"] | Extreme


@dataclass(frozen=True)
class Gather(Op):
    """Rows of a table: the axis is replaced by the axes of `ids`, each id by the row it names.

    The first `batch` axes of both are the same axes: there, each element has its own table.
    """

    operands = Operands(("table", "ids"))
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.LOAD
    axis: int
    batch: int = 0

    def infer(self, facts: Facts, table: TensorType, ids: TensorType) -> TensorType:
        require_axes(self, (self.axis,), table.rank)
        require_dtype(self, ids, INTEGERS)
        _require_batch(self, facts, self.batch, self.axis, ids, table)
        rows = ids.shape[self.batch :]
        return table.with_shape(table.shape[: self.axis] + rows + table.shape[self.axis + 1 :])

    def evaluate(self, table: Array, ids: Array) -> Array:
        _require_within(ids, table.shape[self.axis])
        if not self.batch:
            return np.take(table, ids, axis=self.axis)
        common, before = table.shape[: self.batch], table.shape[self.batch : self.axis]
        after = table.shape[self.axis + 1 :]
        tables = table.reshape(prod(common), prod(before), table.shape[self.axis], prod(after))
        rows = ids.reshape(prod(common), 1, -1, 1)
        found = np.take_along_axis(tables, rows, axis=2)
        return found.reshape(*common, *before, *ids.shape[self.batch :], *after)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        table, ids = out.operands
        size = table.type.shape[self.axis]
        return build.add(ScatterAdd(self.axis, size, self.batch), ids, cotangent), None

    def bytes_read(self, operand: TensorType, result: TensorType) -> int:
        return min(size_in_bytes(operand), size_in_bytes(result))

    def index_operands(self, table: TensorType, ids: TensorType) -> tuple[tuple[int, Size], ...]:
        return ((1, table.shape[self.axis]),)


@dataclass(frozen=True)
class Scatter(Op, abstract=True):
    """Base of scatters: each update goes to the row of a new table that its id names.

    The table has `size` rows along the axis. The first `batch` axes of ids and updates are the
    same axes: there, each element has its own table.
    """

    operands = Operands(("ids", "updates"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD

    def _table(
        self, facts: Facts, ids: TensorType, updates: TensorType, axis: int, batch: int, size: Size
    ) -> TensorType:
        require_dtype(self, ids, INTEGERS)
        require_dtype(self, updates, NUMBERS)
        require_at_least(self, facts, "size", (size,), 1)
        after = axis + ids.rank - batch
        if axis < 0 or after > updates.rank:
            raise TypeRuleError(f"{title(self)} at axis {axis} has no {ids} in {updates}")
        _require_batch(self, facts, batch, axis, ids, updates)
        rows = updates.shape[axis:after]
        what = f"{title(self)} has one update for each id"
        facts.require_same_shape(ids.shape[batch:], rows, what)
        return updates.with_shape((*updates.shape[:axis], size, *updates.shape[after:]))


@dataclass(frozen=True)
class ScatterAdd(Scatter):
    """A table of zeros with each update added to the row its id names; repeated ids add up."""

    axis: int
    size: Size
    batch: int = 0

    def infer(self, facts: Facts, ids: TensorType, updates: TensorType) -> TensorType:
        return self._table(facts, ids, updates, self.axis, self.batch, self.size)

    def evaluate(self, ids: Array, updates: Array) -> Array:
        return _scattered(self, ids, updates, "sum")

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return None, build.add(Gather(self.axis, self.batch), cotangent, out.operands[0])

    def index_operands(self, ids: TensorType, updates: TensorType) -> tuple[tuple[int, Size], ...]:
        return ((0, self.size),)


@dataclass(frozen=True)
class ScatterExtreme(Scatter):
    """The largest or smallest, for each row, of the updates whose id names it.

    A row that no id names is as small, or as large, as its type can be. The first update that is
    as large, or as small, as its row takes the cotangent.
    """

    kind: Extreme
    axis: int
    size: Size
    batch: int = 0

    def infer(self, facts: Facts, ids: TensorType, updates: TensorType) -> TensorType:
        return self._table(facts, ids, updates, self.axis, self.batch, self.size)

    def evaluate(self, ids: Array, updates: Array) -> Array:
        return _scattered(self, ids, updates, self.kind)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        ids, updates = out.operands
        back = build.add(Gather(self.axis, self.batch), cotangent, ids)
        none = full(build, updates.type, 0)
        return None, build.add(Where(), self._chosen(build, out), back, none)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return self._chosen(build, out)

    def _chosen(self, build: Builder, out: Value) -> Value:
        """Returns a bool for each update: true for the first that equals the result of its row."""
        ids, updates = out.operands
        rows = ids.type.shape[self.batch :]
        count = product(rows)
        numbers = build.add(Reshape(rows), build.add(Iota(count)))
        axes = tuple(range(self.axis, self.axis + len(rows)))
        positions = build.add(Broadcast(updates.type.shape, axes), numbers)
        extreme = build.add(Gather(self.axis, self.batch), out, ids)
        attains = build.add(Compare("eq"), updates, extreme)
        found = build.add(Where(), attains, positions, full(build, positions.type, count))
        firsts = build.add(ScatterExtreme("min", self.axis, self.size, self.batch), ids, found)
        first = build.add(Gather(self.axis, self.batch), firsts, ids)
        return build.add(Compare("eq"), positions, first)

    def index_operands(self, ids: TensorType, updates: TensorType) -> tuple[tuple[int, Size], ...]:
        return ((0, self.size),)


OPS: tuple[type[Op], ...] = (Gather, ScatterAdd, ScatterExtreme)


class OutsideError(IndexError):
    """An id names no row of a table."""

    def __init__(self, id_: int, size: int) -> None:
        super().__init__(f"id {id_} is outside the {size} rows of the table")
        self.id = id_
        self.size = size


def combination(kind: Combination, like: Array) -> "tuple[np.ufunc, float]":
    """Returns the function that combines numbers of an array's type, and its neutral element."""
    match kind:
        case "sum":
            return np.add, 0
        case "max" | "min":
            combine = np.maximum if kind == "max" else np.minimum
            if np.issubdtype(like.dtype, np.floating):
                return combine, -np.inf if kind == "max" else np.inf
            limits = np.iinfo(like.dtype)
            return combine, limits.min if kind == "max" else limits.max
        case _:
            assert_never(kind)


def _require_within(ids: Array, size: int) -> None:
    outside = ids[(ids < 0) | (ids >= size)]
    if outside.size:
        raise OutsideError(int(outside.flat[0]), size)


def _require_batch(
    op: Op, facts: Facts, batch: int, axis: int, ids: TensorType, table: TensorType
) -> None:
    """The first axes of ids and table are the same, and come before the axis."""
    if not 0 <= batch <= min(axis, ids.rank):
        raise TypeRuleError(f"{title(op)} at axis {axis} has no {batch} axes in common with {ids}")
    what = f"{title(op)} has ids for each table"
    facts.require_same_shape(ids.shape[:batch], table.shape[:batch], what)


def _scattered(
    op: ScatterAdd | ScatterExtreme, ids: Array, updates: Array, kind: Combination
) -> Array:
    """The table of each row's updates, combined in their order."""
    combine, none = combination(kind, updates)
    size = concrete(op.size)
    _require_within(ids, size)
    common = prod(ids.shape[: op.batch])
    before, after = (
        updates.shape[op.batch : op.axis],
        updates.shape[op.axis + ids.ndim - op.batch :],
    )
    # One table of `common` times `size` rows, which come first.
    rows = updates.reshape(common, prod(before), -1, prod(after)).swapaxes(1, 2)
    rows = rows.reshape(-1, prod(before), prod(after))
    numbers = ids.reshape(common, -1) + size * np.arange(common)[:, None]
    order = np.argsort(numbers, axis=None, kind="stable")
    found, starts = np.unique(numbers.reshape(-1)[order], return_index=True)
    table = np.full((common * size, prod(before), prod(after)), none, updates.dtype)
    table[found] = combine.reduceat(rows[order], starts, axis=0, dtype=updates.dtype)
    table = table.reshape(common, size, prod(before), prod(after)).swapaxes(1, 2)
    return table.reshape(*updates.shape[: op.axis], size, *after)
