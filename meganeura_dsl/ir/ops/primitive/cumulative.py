"""Sums, products and extremes up to each position of an axis, and linear recurrences along it."""

from dataclasses import dataclass
from typing import Literal

from meganeura_dsl.ir.graph import Array, Builder, Op, Value
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.ops.primitive.elementwise import Compare, Mul, Where
from meganeura_dsl.ir.ops.primitive.leaf import Iota
from meganeura_dsl.ir.ops.primitive.movement import Pad, Slice
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    NUMBERS,
    require_axes,
    require_dtype,
    require_same_type,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts

__all__ = ["Cumulative", "LinearRecurrence"]

Accumulation = Literal["sum", "prod", "max", "min"]


@dataclass(frozen=True)
class Cumulative(Op):
    """The sum, product, largest or smallest of all elements up to each, along one axis.

    With `backward`, of all elements from each on. A prefix scan: G. Blelloch, "Prefix sums and
    their applications", CMU-CS-90-190, 1990.
    """

    operands = Operands(("x",))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    kind: Accumulation
    axis: int
    backward: bool = False

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, NUMBERS)
        require_axes(self, (self.axis,), x.rank)
        return x

    def evaluate(self, x: Array) -> Array:
        x = np.flip(x, self.axis) if self.backward else x
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        found = ufunc[self.kind].accumulate(x, self.axis, dtype=x.dtype)
        return np.flip(found, self.axis) if self.backward else found

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        opposite = not self.backward
        match self.kind:
            case "sum":
                return (build.add(Cumulative("sum", self.axis, opposite), cotangent),)
            case "prod":
                # dx[t] = p[t - 1] r[t], r[t] = dy[t] + x[t + 1] r[t + 1]: exact where x is 0
                back = self._recurrence(build, out.operands[0], cotangent)
                before = self._before(build, out)
                first = build.add(
                    Where(), self._is_first(build, out), full(build, out.type, 1), before
                )
                return (build.add(Mul(), first, back),)
            case "max" | "min":
                # a record takes the cotangents up to the next record
                record = self._records(build, out)
                on = build.add(Where(), record, full(build, out.type, 0), full(build, out.type, 1))
                back = self._recurrence(build, on, cotangent)
                return (build.add(Where(), record, back, full(build, out.type, 0)),)

    def branch_index(self, build: Builder, out: Value) -> Value | None:
        return self._records(build, out) if self.kind in ("max", "min") else None

    def _recurrence(self, build: Builder, factor: Value, cotangent: Value) -> Value:
        """r[t] = cotangent[t] + factor[t + 1] r[t + 1], in this op's order of the axis."""
        after = _shifted(build, factor, self.axis, -1 if not self.backward else 1)
        return build.add(LinearRecurrence(self.axis, not self.backward), after, cotangent)

    def _before(self, build: Builder, out: Value) -> Value:
        """Returns the result one element earlier, and 0 at the first."""
        return _shifted(build, out, self.axis, 1 if not self.backward else -1)

    def _is_first(self, build: Builder, out: Value) -> Value:
        """Returns a bool for each element: true for the first in this op's order."""
        size = out.type.shape[self.axis]
        positions = build.add(Broadcast(out.type.shape, (self.axis,)), build.add(Iota(size)))
        first = size - 1 if self.backward else 0
        return build.add(Compare("eq"), positions, full(build, positions.type, first))

    def _records(self, build: Builder, out: Value) -> Value:
        """Returns a bool for each element: true for the first that is as large, or as small."""
        changed = build.add(Compare("ne"), out, self._before(build, out))
        yes = full(build, changed.type, value=True)
        return build.add(Where(), self._is_first(build, out), yes, changed)


@dataclass(frozen=True)
class LinearRecurrence(Op):
    """h[t] = a[t] h[t - 1] + b[t] along one axis, with h[-1] = 0; with `backward`, h[t + 1].

    Steps (a, b) compose associatively, so that it is a prefix scan too: Blelloch 1990, section 1.4.
    """

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    axis: int
    backward: bool = False

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        require_dtype(self, a, FLOATS)
        require_same_type(self, facts, a, b)
        require_axes(self, (self.axis,), a.rank)
        return a

    def evaluate(self, a: Array, b: Array) -> Array:
        along, terms = np.moveaxis(a, self.axis, 0), np.moveaxis(b, self.axis, 0)
        found = np.empty_like(terms)
        order = range(len(terms))
        before = np.zeros_like(terms[0])
        for at in reversed(order) if self.backward else order:
            before = found[at] = along[at] * before + terms[at]
        return np.moveaxis(found, 0, self.axis)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        # db[t] = dh[t] + a[t + 1] db[t + 1], da[t] = db[t] h[t - 1]
        a, _ = out.operands
        step = -1 if self.backward else 1
        after = _shifted(build, a, self.axis, -step)
        back = build.add(LinearRecurrence(self.axis, not self.backward), after, cotangent)
        return build.add(Mul(), back, _shifted(build, out, self.axis, step)), back


OPS: tuple[type[Op], ...] = (Cumulative, LinearRecurrence)


def _shifted(build: Builder, x: Value, axis: int, by: Literal[-1, 1]) -> Value:
    """`x` moved by one position along an axis, with a zero where nothing moved to."""
    none = (0,) * x.type.rank
    one = tuple(int(at == axis) for at in range(x.type.rank))
    low, high, start = (one, none, none) if by == 1 else (none, one, one)
    padded = build.add(Pad(low, high, none), x)
    stop = tuple(first + size for first, size in zip(start, x.type.shape, strict=True))
    return build.add(Slice(start, stop, (1,) * x.type.rank), padded)
