"""Reading and adding up rows by number; each is the adjoint of the other."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
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
from meganeura_dsl.symbolic.size import Size

__all__ = ["Gather", "ScatterAdd"]


@dataclass(frozen=True)
class Gather(Op):
    """Rows of a table: the axis is replaced by the axes of `ids`, each id by the row it names."""

    operands = Operands(("table", "ids"))
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.LOAD
    axis: int

    def infer(self, facts: Facts, table: TensorType, ids: TensorType) -> TensorType:
        require_axes(self, (self.axis,), table.rank)
        require_dtype(self, ids, INTEGERS)
        shape = table.shape[: self.axis] + ids.shape + table.shape[self.axis + 1 :]
        return table.with_shape(shape)

    def evaluate(self, table: Array, ids: Array) -> Array:
        _require_within(ids, table.shape[self.axis])
        return np.take(table, ids, axis=self.axis)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        table, ids = out.operands
        size = table.type.shape[self.axis]
        return build.add(ScatterAdd(self.axis, size), ids, cotangent), None

    def bytes_read(self, operand: TensorType, result: TensorType) -> int:
        return min(size_in_bytes(operand), size_in_bytes(result))


@dataclass(frozen=True)
class ScatterAdd(Op):
    """A table of zeros with each update added to the row its id names; repeated ids add up."""

    operands = Operands(("ids", "updates"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    axis: int
    size: Size

    def infer(self, facts: Facts, ids: TensorType, updates: TensorType) -> TensorType:
        require_dtype(self, ids, INTEGERS)
        require_dtype(self, updates, NUMBERS)
        require_at_least(self, facts, "size", (self.size,), 1)
        after = self.axis + ids.rank
        if self.axis < 0 or after > updates.rank:
            raise TypeRuleError(f"{title(self)} at axis {self.axis} has no {ids} in {updates}")
        facts.require_same_shape(
            ids.shape, updates.shape[self.axis : after], f"{title(self)} has one update for each id"
        )
        return updates.with_shape((*updates.shape[: self.axis], self.size, *updates.shape[after:]))

    def evaluate(self, ids: Array, updates: Array) -> Array:
        size = concrete(self.size)
        _require_within(ids, size)
        before, after = updates.shape[: self.axis], updates.shape[self.axis + ids.ndim :]
        rows = updates.reshape(*before, ids.size, *after)
        order = np.argsort(ids, axis=None, kind="stable")
        found, starts = np.unique(ids.reshape(-1)[order], return_index=True)
        result = np.zeros((*before, size, *after), updates.dtype)
        place = (slice(None),) * self.axis
        sums = np.add.reduceat(rows[(*place, order)], starts, axis=self.axis, dtype=updates.dtype)
        result[(*place, found)] = sums
        return result

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return None, build.add(Gather(self.axis), cotangent, out.operands[0])


OPS: tuple[type[Op], ...] = (Gather, ScatterAdd)


class OutsideError(IndexError):
    """An id names no row of a table."""

    def __init__(self, id_: int, size: int) -> None:
        super().__init__(f"id {id_} is outside the {size} rows of the table")
        self.id = id_
        self.size = size


def _require_within(ids: Array, size: int) -> None:
    outside = ids[(ids < 0) | (ids >= size)]
    if outside.size:
        raise OutsideError(int(outside.flat[0]), size)
