"""Bounds of the elements of whole numbers, whatever a program is fed.

Bounds of two kinds are known: what no element is below or above, and what some element reaches for
certain. `iota(s)` reaches `s - 1`; `iota(s) + p` of an input `p >= 0` reaches it at least.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.positions import (
    POSITION,
    Bounds,
    stated_bounds,
)
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Leaf
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Dim, Size

LARGEST = (1 << 31) - 1


MOST_BOUNDS = 6
"""Bounds of one kind that are kept of a value."""


@dataclass(frozen=True)
class Reach:
    """Bounds of all elements of whole numbers, and of some of them, for any data."""

    low: Bounds = ()
    """No element is below any of these."""
    high: Bounds = ()
    """No element is above any of these."""
    top: Bounds = ()
    """Lower bounds of the largest element."""
    bottom: Bounds = ()
    """Upper bounds of the least element."""
    varies: frozenset[object] = frozenset()
    """The axes along which elements differ, and the scans in whose iterations they do."""
    may_wrap: bool = False
    """True if elements may be so large that they wrap, and are below 0 instead."""
    is_full: bool = False
    """True if every whole number between the one lower and the one upper bound is an element."""

    @property
    def is_bounded(self) -> bool:
        """True if it is known from below and from above, so that a sum of it does not wrap."""
        return bool(self.low and self.high)

    @property
    def is_tight(self) -> bool:
        """True if elements are known to reach a bound that none exceeds, at both ends."""
        return not (set(self.top).isdisjoint(self.high) or set(self.bottom).isdisjoint(self.low))

    @property
    def is_trivial(self) -> bool:
        """True if it cannot show that an index is out of range."""
        return all(each == 0 for each in self.top) and all(
            isinstance(each, int) and each >= 0 for each in self.bottom
        )


def reach_of(frame: Frame, value: Tensor, *, is_stated: bool = False) -> Reach:
    """Returns the reach of a value; with `is_stated`, a stated number is its own symbol."""
    return _Reaches(frame, is_stated=is_stated).of(value)


class _Reaches:
    """Computes the reaches of values, each once."""

    def __init__(self, frame: Frame, *, is_stated: bool) -> None:
        self._frame = frame
        self._is_stated = is_stated
        self._known: dict[int, Reach] = {}

    def of(self, value: Tensor) -> Reach:
        """Returns the reach of a value."""
        if value.type.dtype is not DType.I32:
            return Reach()
        if value.id not in self._known:
            found = self._found(value)
            fits = all(
                not isinstance(each, int) or -LARGEST <= each <= LARGEST
                for each in (*found.low, *found.high, *found.top, *found.bottom)
            )
            self._known[value.id] = found if fits else Reach()
        return self._known[value.id]

    def _found(self, value: Tensor) -> Reach:
        match value.op:
            case ops.Constant(value=int() | Dim() as number):
                return _exactly(number)
            case ops.Iota(size=size):
                return replace(_between(0, size - 1), varies=frozenset({0}))
            case ops.Remainder(divisor=size):
                return self._remainder(self.of(value.operands[0]), size)
            case ops.ArgMax(axis=axis):
                return _within((0,), (value.operands[0].type.shape[axis] - 1,))
            case ops.Sort(axis=axis) if value.index:
                return replace(_between(0, value.type.shape[axis] - 1), varies=frozenset({axis}))
            case ops.Cast():
                is_bool = value.operands[0].type.dtype is DType.BOOL
                return _within((0,), (1,)) if is_bool else self.of(value.operands[0])
            case Leaf():
                return self._leaf(value)
            case _:
                return self._computed(value)

    def _leaf(self, value: Tensor) -> Reach:
        for name, scan in self._frame.state.scans.items():
            if scan.region.time is value:
                last = scan.iterations - 1 if scan.going is None else 0
                return replace(
                    _within((0,), (scan.iterations - 1,)), top=(last,), bottom=(0,),
                    varies=frozenset({name}),
                )  # fmt: skip
            read = scan.region.slices.get(value.id)
            if read is not None:
                reach = self.of(read.source)
                if scan.going is not None:
                    return _within(reach.low, reach.high)
                return replace(reach, varies=frozenset({name, *range(value.type.rank)}))
        symbol = self._frame.state.values.symbolic_ints.get(value.id)
        if symbol is None:
            return Reach()
        if self._is_stated and value.type == POSITION:
            return _exactly(symbol)
        return _within(*stated_bounds(self._frame, symbol))

    def _computed(self, value: Tensor) -> Reach:
        sides = [self.of(each) for each in value.operands]
        match value.op:
            case ops.Slice(start=(start,), stop=(stop,), step=(1,)) if isinstance(
                value.operands[0].op, ops.Iota
            ):
                return replace(_between(start, stop - 1), varies=frozenset({0}))
            case ops.Slice() | ops.Gather() | ops.DynamicSlice():
                return _within(sides[0].low, sides[0].high)
            case ops.Broadcast(axes=axes):
                varies = (axes[each] if isinstance(each, int) else each for each in sides[0].varies)
                return replace(sides[0], varies=frozenset(varies))
            case op if Trait.VIEW in op.traits:
                return replace(sides[0], varies=_along_all(value, sides[:1]))
            case ops.Add():
                return _sum(*sides)
            case ops.Sub():
                return _sum(sides[0], _negative(sides[1]))
            case ops.Neg():
                return _negative(sides[0])
            case ops.Mul():
                return self._product(*sides)
            case ops.FloorDivide(divisor=divisor):
                return self._quotient(sides[0], divisor)
            case ops.Minimum():
                return _negative(self._largest(*map(_negative, sides)))
            case ops.Maximum():
                return self._largest(*sides)
            case ops.Concat():
                return self._each_of(value, sides)
            case ops.Where():
                return self._one_of(sides[1:])
            case _:
                return Reach()

    def _product(self, left: Reach, right: Reach) -> Reach:
        """The product with a number that is the same everywhere."""
        for factor, other in ((left, right), (right, left)):
            number = _number(factor)
            if number is not None and other.is_bounded:
                if self._is_at_most(0, number):
                    return _mapped(other, lambda each, by=number: each * by)
                if self._is_at_most(number, 0):
                    return _mapped(_negative(other), lambda each, by=number: each * -by)
        return Reach()

    def _quotient(self, reach: Reach, divisor: Size) -> Reach:
        return Reach() if reach.may_wrap else _mapped(reach, lambda each: each // divisor)

    def _remainder(self, reach: Reach, divisor: Size) -> Reach:
        """Returns the reach of a remainder, which is at least 0 and less than the divisor."""
        if not reach.is_full or reach.may_wrap:
            return _within((0,), (divisor - 1,))
        (low,), (high,) = reach.low, reach.high
        if self._is_at_most(0, low) and self._is_at_most(high, divisor - 1):
            return reach
        if self._is_at_most(divisor - 1, high - low):
            return replace(_between(0, divisor - 1), varies=reach.varies)
        return _within((0,), (divisor - 1,))

    def _largest(self, left: Reach, right: Reach) -> Reach:
        """The larger of two at each place."""
        if left.may_wrap or right.may_wrap:
            return Reach()
        high = self._above_each([left.high, right.high])
        reached = [
            number if self._is_at_most(each, number) else each
            for one, other in ((left, right), (right, left))
            if (number := _number(other)) is not None
            for each in one.bottom
            if self._is_at_most(each, number) or self._is_at_most(number, each)
        ]
        return Reach(
            _strongest((*left.low, *right.low), max),
            high,
            _strongest((*left.top, *right.top), max),
            _strongest((*reached, *high), min),
            left.varies | right.varies,
        )

    def _one_of(self, sides: Sequence[Reach]) -> Reach:
        """Elements of which each is one of some values, whichever it is."""
        low = _opposite(self._above_each([_opposite(side.low) for side in sides]))
        high = self._above_each([side.high for side in sides])
        return replace(_within(low, high), may_wrap=any(side.may_wrap for side in sides))

    def _each_of(self, value: Tensor, sides: Sequence[Reach]) -> Reach:
        """All elements of some values, side by side."""
        return replace(
            self._one_of(sides),
            top=_strongest((each for side in sides for each in side.top), max),
            bottom=_strongest((each for side in sides for each in side.bottom), min),
            varies=_along_all(value, sides),
        )

    def _above_each(self, bounds: Sequence[Bounds]) -> Bounds:
        """Returns the bounds that are no less than some bound of each operand."""

        def is_above(size: Size, of: Bounds) -> bool:
            return any(self._is_at_most(each, size) for each in of)

        every = dict.fromkeys(each for side in bounds for each in side)
        return _strongest((each for each in every if all(is_above(each, of) for of in bounds)), min)

    def _is_at_most(self, low: Size, high: Size) -> bool:
        if isinstance(low, int) and isinstance(high, int):
            return low <= high
        return self._frame.facts.proves(Compare("<=", low, high))


def _exactly(number: Size) -> Reach:
    return _between(number, number)


def _number(reach: Reach) -> Size | None:
    """The number that every element is, if there is one."""
    is_one = len(reach.low) == 1 and reach.low == reach.high
    return reach.low[0] if is_one else None


def _between(first: Size, last: Size) -> Reach:
    """All whole numbers from one to another."""
    return Reach((first,), (last,), (last,), (first,), is_full=True)


def _within(low: Bounds, high: Bounds) -> Reach:
    """Elements that are between bounds, and reach none for certain."""
    return Reach(low, high, low, high)


def _opposite(bounds: Iterable[Size]) -> Bounds:
    return tuple(-each for each in bounds)


def _strongest(bounds: Iterable[Size], pick: Callable[[Iterable[int]], int]) -> Bounds:
    """A few bounds, of numbers the one that says the most."""
    every = tuple(dict.fromkeys(bounds))
    numbers = [each for each in every if isinstance(each, int)]
    sizes = [each for each in every if not isinstance(each, int)]
    return (*sizes, *([pick(numbers)] if numbers else []))[:MOST_BOUNDS]


def _along_all(value: Tensor, sides: Iterable[Reach]) -> frozenset[object]:
    """All axes of a value, unless what it is made of differs along none, and in what iterations."""
    varies = frozenset[object]().union(*(side.varies for side in sides))
    iterations = frozenset(each for each in varies if not isinstance(each, int))
    return iterations.union(range(value.type.rank)) if varies or len([*sides]) > 1 else iterations


def _negative(reach: Reach) -> Reach:
    return Reach(
        _opposite(reach.high), _opposite(reach.low),
        _opposite(reach.bottom), _opposite(reach.top),
        reach.varies, reach.may_wrap, reach.is_full,
    )  # fmt: skip


def _mapped(reach: Reach, apply: Callable[[Size], Size]) -> Reach:
    """Returns the reach of elements after a function that keeps their order."""
    low, high, top, bottom = (
        tuple(map(apply, each)) for each in (reach.low, reach.high, reach.top, reach.bottom)
    )
    return Reach(low, high, top, bottom, reach.varies)


def _sum(left: Reach, right: Reach) -> Reach:
    """The sum of two, of which one at most may be any number above or below a bound."""
    if not (left.is_bounded or right.is_bounded):
        return Reach()
    tops = [(left.top, right.low), (left.low, right.top)]
    bottoms = [(left.bottom, right.high), (left.high, right.bottom)]
    if left.varies.isdisjoint(right.varies):
        tops.insert(0, (left.top, right.top))
        bottoms.insert(0, (left.bottom, right.bottom))
    return Reach(
        _strongest(_sums([(left.low, right.low)]), max),
        _strongest(_sums([(left.high, right.high)]), min),
        _strongest(_sums(tops), max),
        _strongest(_sums(bottoms), min),
        left.varies | right.varies,
        may_wrap=not (left.is_bounded and right.is_bounded),
        is_full=(left.is_full and _number(right) is not None)
        or (right.is_full and _number(left) is not None),
    )


def _sums(pairs: Iterable[tuple[Bounds, Bounds]]) -> Iterator[Size]:
    for left, right in pairs:
        yield from (a + b for a in left for b in right)
