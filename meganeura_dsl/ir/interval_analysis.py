"""Ranges of whole numbers, by interval analysis (Cousot and Cousot, POPL 1977).

Every op maps the intervals of its operands to one that holds all results. What is known is exact
for whole numbers, which wrap: a result that could wrap may be any. Floats are only followed from
whole numbers and constants: between whole ends that are exact in their type, rounding stays between
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import ceil, floor, isfinite, prod

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    ArgMax,
    Cast,
    Concat,
    Constant,
    Cumulative,
    DynamicSlice,
    DynamicUpdate,
    Floor,
    FloorDivide,
    Gather,
    Iota,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Pad,
    ReduceMax,
    Remainder,
    Round,
    Sort,
    Sub,
    Sum,
    Where,
)
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim

EXACT = 1 << 24
"""Whole numbers up to here are exact in single precision, and so are their sums and products."""

LIMITS = {DType.I32: (-(1 << 31), (1 << 31) - 1), DType.U32: (0, (1 << 32) - 1)}


@dataclass(frozen=True)
class Range:
    """All whole numbers from `low` to `high`, both among them; a float lies between them."""

    low: int
    high: int

    def join(self, other: "Range") -> "Range":
        """Returns the smallest range that contains both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def within(self, low: int, high: int) -> bool:
        """True if no value lies outside of these limits."""
        return low <= self.low and self.high <= high


Ranges = Mapping[int, Range]
"""The known range of a value, by its number."""


def ranges_of(graph: Graph, known: Mapping[str, Range]) -> Ranges:
    """The ranges of the values of a graph whose sizes are numbers; `known` are those of leaves."""
    found: dict[int, Range] = {}
    for value in graph.values:
        leaf = value.op if isinstance(value.op, Leaf) else None
        range_ = _range_of(value, found) if leaf is None else known.get(leaf.name)
        if range_ is None and value.type.dtype is DType.BOOL:
            range_ = Range(0, 1)
        if range_ is not None and _holds(value.type.dtype, range_):
            found[value.id] = range_
    return found


def _holds(dtype: DType, range_: Range) -> bool:
    """True if numbers of a type hold all of a range, exactly."""
    match dtype:
        case DType.I32 | DType.U32:
            return range_.within(*LIMITS[dtype])
        case DType.F32:
            return range_.within(-EXACT, EXACT)
        case DType.F16:
            return range_.within(-(1 << 11), 1 << 11)
        case DType.BOOL:
            return True


def _range_of(value: Value, found: Ranges) -> Range | None:
    match value.op:
        case Constant(value=number):
            return _of_number(number)
        case Iota(size=size):
            return Range(0, concrete(size) - 1)
        case ArgMax(axis=axis):
            return Range(0, concrete(value.operands[0].type.shape[axis]) - 1)
        case Remainder(divisor=divisor):
            return Range(0, concrete(divisor) - 1)
        case Sort() if value.index:
            return Range(0, concrete(value.operands[0].type.shape[value.op.axis]) - 1)
        case _:
            known = [found.get(each.id) for each in value.operands]
            return _of_operands(value, known)


NOT_FOLLOWED: Mapping[str, str] = {
    "RandomBits": "any number",
    **dict.fromkeys(
        ("Cos", "Div", "Erf", "Exp", "Expm1", "Log", "Log1p", "Logistic", "Sin", "Sqrt", "Tanh"),
        "a float between whole numbers, of which no index is made but by rounding",
    ),
    **dict.fromkeys(
        ("Conv", "ConvInputGradient", "ConvWeightGradient", "LinearRecurrence", "MatMul"),
        "a sum of products of floats",
    ),
    **dict.fromkeys(("MaxPool", "MaxPoolGradient", "MaxPoolSelect"), "of floats alone"),
    "ScatterAdd": "as many terms as the indices say",
    "ScatterExtreme": "infinite where no index points",
    "Scan": "`index_checks` looks into its body",
}
"""Primitive ops whose results are never known, by name, and why not."""


def _of_number(number: float | Dim) -> Range | None:
    known = concrete(number) if isinstance(number, Dim) else number
    return Range(floor(known), ceil(known)) if isfinite(known) else None


def _of_operands(value: Value, known: list[Range | None]) -> Range | None:
    """The range of an op of operands, of which those it needs must be known."""
    if Trait.VIEW in value.op.traits or isinstance(value.op, Gather | DynamicSlice):
        return known[0]
    match value.op:
        case Where():
            needed = known[1:]
        case DynamicUpdate():
            needed = known[:2]
        case _:
            needed = known
    ranges = [each for each in needed if each is not None]
    if len(ranges) < len(needed):
        return _of_bounds(value, known)
    match value.op:
        case Cast(dtype=dtype):
            return Range(0, 1) if dtype is DType.BOOL else ranges[0]
        case Where() | Concat() | DynamicUpdate():
            return reduce(Range.join, ranges)
        case Pad():
            return ranges[0].join(Range(0, 0))
        case Sum():
            terms, sums = (concrete_shape(each.type.shape) for each in (value.operands[0], value))
            count = prod(terms) // prod(sums)
            return Range(count * ranges[0].low, count * ranges[0].high)
        case ReduceMax() | Floor() | Round() | Sort() | Cumulative(kind="max" | "min"):
            return ranges[0]
        case FloorDivide(divisor=divisor):
            by = concrete(divisor)
            return Range(ranges[0].low // by, ranges[0].high // by)
        case Neg():
            return Range(-ranges[0].high, -ranges[0].low)
        case Abs():
            ends = (abs(ranges[0].low), abs(ranges[0].high))
            low = 0 if ranges[0].low <= 0 <= ranges[0].high else min(ends)
            return Range(low, max(ends))
        case Add() | Sub() | Mul() | Maximum() | Minimum():
            return _at_ends(ARITHMETIC[type(value.op)], *ranges)
        case _:
            return None


def _of_bounds(value: Value, known: list[Range | None]) -> Range | None:
    """Returns the range of `maximum` and `minimum` that follows from one known operand."""
    limits = LIMITS.get(value.type.dtype)
    if limits is None or not isinstance(value.op, Maximum | Minimum):
        return None
    ranges = [Range(*limits) if each is None else each for each in known]
    return _at_ends(ARITHMETIC[type(value.op)], *ranges)


ARITHMETIC: Mapping[type[Op], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Maximum: max,
    Minimum: min,
}
"""Ops that are monotone in each operand, one way or the other: their extremes are at the ends."""


def _at_ends(apply: Callable[[int, int], int], a: Range, b: Range) -> Range:
    ends = [apply(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(ends), max(ends))
