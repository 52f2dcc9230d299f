"""One iteration of a prefix scan, and one of a merge sort: an element of a few others."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import Kind, Reduction, Term
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import BoundsCheck, Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    ElementReader,
    guarded,
    integer,
)
from meganeura_runtime.backends.webgpu.ops.prefix import MergeStep, PrefixStep, RecurrenceStep

REDUCES: tuple[type[Op], ...] = (PrefixStep, RecurrenceStep, MergeStep)

COMBINED = {
    "sum": ("{0} + {1}", "{0} + {1}"),
    "prod": ("{0} * {1}", "{0} * {1}"),
    "max": ("larger({0}, {1})", "max({0}, {1})"),
    "min": ("smaller({0}, {1})", "min({0}, {1})"),
}
"""WGSL for floats, which may be NaN, and for integers."""


def reduction(value: Value) -> Reduction:
    """The element, as the only term: each iteration is stored, as the next reads it elsewhere."""

    def term(reading: ElementReader, kept: Index, _: Index) -> Term:
        match value.op:
            case PrefixStep() as op:
                return Term(_combined(reading, op, value, kept))
            case RecurrenceStep() as op:
                return Term(_composed(reading, op, value, kept))
            case MergeStep() as op:
                return Term(_merged(reading, op, value, kept))
            case op:
                raise TypeError(f"{op} is no iteration")

    return Reduction(Kind.ONLY, ((1,),), term)


def _positions(
    op: PrefixStep | RecurrenceStep, shape: Sequence[int], kept: Index
) -> list[BoundsCheck]:
    """The positions along the axis that an element combines, its own first."""
    step = op.distance if op.backward else -op.distance
    at = kept[op.axis]
    return [BoundsCheck(at + step * number, 1, shape[op.axis]) for number in range(op.terms)]


def _combined(reading: ElementReader, op: PrefixStep, value: Value, kept: Index) -> Expression:
    """x[t], x[t - d], ... combined; a combination with nothing changes nothing."""
    (x,) = value.operands
    make = reading.make
    template = COMBINED[op.kind][not x.type.dtype.is_float]
    total = reading.at(x, kept)
    for guard in _positions(op, concrete_shape(x.type.shape), kept)[1:]:
        other = reading.at(x, (*kept[: op.axis], guard.index, *kept[op.axis + 1 :]))
        total = make.choice(guard, make.call(template, x.type.dtype, other, total), total)
    return total


def _composed(reading: ElementReader, op: RecurrenceStep, value: Value, kept: Index) -> Expression:
    """a[t] a[t - d] ..., or b[t] + a[t] (b[t - d] + a[t - d] (...)); before the first, (1, 0)."""
    a, b = value.operands
    make, dtype = reading.make, a.type.dtype
    total = make.literal(1 - value.index, dtype)
    for guard in reversed(_positions(op, concrete_shape(a.type.shape), kept)):
        position = (*kept[: op.axis], guard.index, *kept[op.axis + 1 :])
        factor = make.call("{0} * {1}", dtype, reading.at(a, position), total)
        if value.index == 0:
            total = make.choice(guard, factor, total)
        else:
            term = make.call("{0} + {1}", dtype, reading.at(b, position), factor)
            total = guarded(make, [guard], term)
    return total


@dataclass(frozen=True)
class _Merge:
    """Two neighbouring sorted runs A and B, at the places from `start`, `middle` up to `stop`."""

    reading: ElementReader
    op: MergeStep
    values: Value
    kept: Index

    def whole(self, template: str, *operands: Expression) -> Expression:
        """An i32 expression of a WGSL template and its operands."""
        return self.reading.make.call(template, DType.I32, *operands)

    def literal(self, number: int) -> Expression:
        """A whole number."""
        return self.reading.make.literal(number, DType.I32)

    @property
    def end(self) -> Expression:
        """The size of the axis."""
        return self.literal(concrete_shape(self.values.type.shape)[self.op.axis])

    @property
    def position(self) -> Expression:
        """The place of the element wanted."""
        return self.reading.make.number(self.kept[self.op.axis], DType.I32)

    @property
    def start(self) -> Expression:
        """The first place of A."""
        both = 2 * self.op.run
        return self.reading.make.number(self.kept[self.op.axis] // both * both, DType.I32)

    @property
    def middle(self) -> Expression:
        """The first place of B."""
        return self.whole("min({0} + {1}, {2})", self.start, self.literal(self.op.run), self.end)

    @property
    def stop(self) -> Expression:
        """The first place after B."""
        return self.whole("min({0} + {1}, {2})", self.middle, self.literal(self.op.run), self.end)

    def index(self, at: Expression) -> Index:
        """A place along the axis; one that is not looked at may be beyond its ends."""
        inside = self.whole("clamp({0}, 0i, {1} - 1i)", at, self.end)
        return (*self.kept[: self.op.axis], integer(inside), *self.kept[self.op.axis + 1 :])

    def beside(self, left: Expression) -> Expression:
        """The place in B so that what is before both places is what is before `position`."""
        return self.whole("{0} + {1} - {2}", self.middle, self.position, left)

    def right_first(self, left: Expression, right: Expression) -> Expression:
        """WGSL that is true if `right` of B comes before `left` of A.

        Of equal ones A's is first.
        """
        pair = [self.reading.at(self.values, self.index(at)) for at in (left, right)]
        larger = "exceeds({0}, {1})" if self.values.type.dtype.is_float else "{0} > {1}"
        ordered = reversed(pair) if self.op.descending else pair
        return self.reading.make.call(larger, DType.BOOL, *ordered)

    def taken(self) -> Expression:
        """The place in A up to which A's elements come before `position`, by binary search."""
        beyond = self.whole("{0} - ({1} - {2})", self.position, self.stop, self.middle)
        low = self.whole("max({0}, {1})", self.start, beyond)
        high = self.whole("min({0}, {1})", self.position, self.middle)
        for _ in range(self.op.run.bit_length()):
            half = self.whole("({0} + {1}) / 2i", low, high)
            before = self.right_first(half, self.whole("{0} - 1i", self.beside(half)))
            done = self.reading.make.call("{0} >= {1}", DType.BOOL, low, high)
            after = self.whole("select({0} + 1i, {1}, {2})", half, low, before)
            until = self.whole("select({0}, {1}, {2})", high, half, before)
            low = self.whole("select({0}, {1}, {2})", after, low, done)
            high = self.whole("select({0}, {1}, {2})", until, high, done)
        return low


def _merged(reading: ElementReader, op: MergeStep, value: Value, kept: Index) -> Expression:
    """The element of two sorted runs at a place of both together, found by binary search.

    O. Green, R. McColl and D. Bader, "GPU merge path: a GPU merging algorithm", ICS 2012.
    """
    merge = _Merge(reading, op, value.operands[0], kept)
    left = merge.taken()
    right = merge.beside(left)
    make = reading.make
    no_left = make.call("{0} >= {1}", DType.BOOL, left, merge.middle)
    some_right = make.call("{0} < {1}", DType.BOOL, right, merge.stop)
    first = merge.right_first(left, right)
    is_right = make.call("{0} || ({1} && {2})", DType.BOOL, no_left, some_right, first)
    chosen = merge.whole("select({0}, {1}, {2})", left, right, is_right)
    return reading.at(value.operands[value.index], merge.index(chosen))
