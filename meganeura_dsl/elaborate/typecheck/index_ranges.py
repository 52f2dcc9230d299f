"""Which indices a program picks with whatever it is fed, held against what they pick from.

Of a whole number that is computed, bounds of two kinds are known: what no element is below or
above, and what some element reaches for certain, whatever the data is. `iota(s)` reaches `s - 1`;
`iota(s) + p` of an input `p >= 0` reaches it at least. An index that reaches what is not there for
all sizes is an error. One that does for some is a note, which says what `where` would exclude it.
What only data decides is looked at where it is given, or while it runs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from meganeura_dsl.diagnostics.problem import ProblemError, Severity
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.habits import operation_at
from meganeura_dsl.elaborate.problems.proof_failures import helpful_fact
from meganeura_dsl.elaborate.problems.shape_cures import LONGEST
from meganeura_dsl.elaborate.problems.shape_problems import Example, IndexMayOverrun, IndexOverrun
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import Summarized
from meganeura_dsl.elaborate.typecheck.positions import (
    POSITION,
    Bounds,
    facts_about,
    speaks_of,
    stated_bounds,
)
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Array, Leaf, dependencies
from meganeura_dsl.ir.index_checks import counted_by, numbers_compared_with
from meganeura_dsl.ir.ops.primitive.broadcast import is_zero
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.ops.primitive.loop import Loop
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Condition, Refuted, show_condition
from meganeura_dsl.symbolic.conditions import negate, sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, show, substitute

LARGEST = (1 << 31) - 1
STORED = {
    DType.I32: "int32", DType.U32: "uint32", DType.F32: "float32", DType.F16: "float16",
    DType.BOOL: "bool",
}  # fmt: skip
"""The types of NumPy that the element types are stored as."""
MOST_COMPUTED = 1 << 16
"""Elements of which the largest and the smallest are found by computing them."""
MOST_BOUNDS = 6
"""Bounds of one kind that are kept of a value."""


@dataclass(frozen=True)
class Reach:
    """What is known of all elements of whole numbers, and of some, whatever the data is."""

    low: Bounds = ()
    """No element is below any of these."""
    high: Bounds = ()
    """No element is above any of these."""
    top: Bounds = ()
    """For each of these, some element is at least that."""
    bottom: Bounds = ()
    """For each of these, some element is at most that."""
    varies: frozenset[object] = frozenset()
    """The axes along which elements differ, and the scans in whose rounds they do."""
    may_wrap: bool = False
    """Whether elements may be so large that they wrap, and are below 0 instead."""
    is_full: bool = False
    """Whether every whole number between the one lower and the one upper bound is an element."""

    @property
    def is_bounded(self) -> bool:
        """Whether it is known from below and from above, so that a sum of it does not wrap."""
        return bool(self.low and self.high)

    @property
    def is_tight(self) -> bool:
        """Whether elements are known to reach a bound that none exceeds, at both ends."""
        return not (set(self.top).isdisjoint(self.high) or set(self.bottom).isdisjoint(self.low))

    @property
    def is_trivial(self) -> bool:
        """Whether no index can be told to be out of range by it."""
        return all(each == 0 for each in self.top) and all(
            isinstance(each, int) and each >= 0 for each in self.bottom
        )


class FoundIndex(ProblemError):
    """What was found of an index, to be told at the end unless the program leaves it out."""

    def __init__(
        self, problem: IndexOverrun | IndexMayOverrun, compared: tuple[Tensor, Size] | None
    ) -> None:
        super().__init__(problem)
        self.compared = compared
        """The index and what it is below, if it is compared with what it picks."""

    def is_left_out(self, values: Sequence[Tensor]) -> bool:
        """Whether the program compares the index with a number that may stand for none."""
        if self.compared is None:
            return False
        ids, count = self.compared
        return any(
            number < 0 or not isinstance(count, int) or number >= count
            for number in numbers_compared_with(values, ids)
        )


def check_index(
    frame: Frame, span: Span, ids: Tensor, count: Size, *, is_compared: bool = False
) -> None:
    """Note what is known to be wrong of an index, which has to be one of 0 ... count - 1."""
    if ids.type.dtype is not DType.I32:
        return
    reach = reach_of(frame, ids)
    if _is_inside(frame, reach, count):
        return
    if not reach.is_tight:
        reach = _computed(ids) or reach
    found = [
        each
        for is_above, bounds in ((True, reach.top), (False, reach.bottom))
        for bound in bounds
        if (each := _found(frame, span, ids, (bound, count, reach), is_above=is_above)) is not None
    ]
    if found:
        worst = min(found, key=lambda each: each.severity is not Severity.ERROR)
        frame.state.body.notes.append(FoundIndex(worst, (ids, count) if is_compared else None))


def _is_inside(frame: Frame, reach: Reach, count: Size) -> bool:
    """Whether all elements are known to be in range."""
    return any(_holds(frame, _needed(each, count, is_above=True)) for each in reach.high) and any(
        _holds(frame, _needed(each, count, is_above=False)) for each in reach.low
    )


def _holds(frame: Frame, needed: Condition) -> bool:
    return needed if isinstance(needed, bool) else frame.facts.proves(needed)


def check_chosen(frame: Frame, span: Span, value: Tensor) -> None:
    """Note what is wrong of the labels that choose what is summed: sum(where(a == iota, x, 0)).

    Of labels that depend on nothing that is fed or learned, such a sum takes a diagonal.
    """
    if not isinstance(value.op, ops.Where) or not is_zero(value.operands[2]):
        return
    for ids, count in counted_by(value.operands[0]):
        times = {scan.region.time.id for scan in frame.state.scans.values()}
        leaves = (each for each in dependencies([ids]) if isinstance(each.op, Leaf))
        if any(each.id not in times for each in leaves):
            check_index(frame, span, ids, count, is_compared=True)


def settle(state: ElaborationState) -> None:
    """Raise what is certain of indices, and keep as notes what is not.

    Numbers that the program compares an index with may stand for none.
    """
    values = (
        state.build.values if any(isinstance(each, FoundIndex) for each in state.body.notes) else ()
    )
    kept: list[ProblemError] = []
    for note in state.body.notes:
        if isinstance(note, FoundIndex):
            if note.is_left_out(values):
                continue
            if note.problem.severity is Severity.ERROR:
                raise note
        kept.append(note)
    state.body.notes[:] = kept


def _found(
    frame: Frame,
    span: Span,
    ids: Tensor,
    known: tuple[Size, Size, Reach],
    *,
    is_above: bool,
) -> IndexOverrun | IndexMayOverrun | None:
    """What is wrong with a bound that some element of an index reaches."""
    bound, count, reach = known
    needed = _needed(bound, count, is_above=is_above)
    if _holds(frame, needed):
        return None
    is_outside = isinstance(needed, bool) or frame.facts.proves(negate(needed))
    location, shown, below = frame.location(span), show(bound), show(count)
    is_reached = bound in (reach.high if is_above else reach.low)
    begins = next((show(each) for each in reach.bottom if each in reach.low), "")
    if is_outside:
        applied = frame.outermost(span)[1].span
        applied = None if applied == location.span else applied
        return IndexOverrun(
            location, shown, below, is_above, is_reached, applied, _written(ids), begins
        )
    assert not isinstance(needed, bool)
    scans = frame.state.scans
    verdict = frame.facts.decide(needed)
    if not isinstance(verdict, Refuted):
        return None
    at, of = (show(substitute(each, verdict.example)) for each in (bound, count))
    words = f"an index of {at}" + (f", which must be below {of}" if is_above else "")
    sizes = ((name, size) for name, size in verdict.example.items() if name not in scans)
    example = Example(tuple(sizes), words)
    fact = _excluding(frame, ids, count, is_above=is_above)
    late = _written(ids) if is_above and begins.isdecimal() and begins != "0" else ""
    return IndexMayOverrun(
        location, shown, below, is_above, is_reached, example, fact, late, begins
    )


def _written(ids: Tensor) -> str:
    """How an index is written, without brackets around all of it; empty if it is no short text."""
    span = ids.origin.span
    text = " ".join(span.text.split()) if span is not None else ""
    if span is not None and not re.search(r"\w", text):
        text = operation_at(span)
    return text if 0 < len(text) <= LONGEST and re.fullmatch(r"[\w\s+*/%().,-]+", text) else ""


def _needed(bound: Size, count: Size, *, is_above: bool) -> Compare | bool:
    """That a bound is that of an index in range; true or false of numbers."""
    left, right = (bound, count - 1) if is_above else (0, bound)
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    return Compare("<", bound, count) if is_above else Compare(">=", bound, 0)


def _excluding(frame: Frame, ids: Tensor, count: Size, *, is_above: bool) -> str:
    """The fact that would exclude an index out of range, if one was found."""
    reach = reach_of(frame, ids, is_stated=True)
    for bound in reach.top if is_above else reach.bottom:
        needed = _needed(bound, count, is_above=is_above)
        if isinstance(needed, bool):
            continue
        facts = facts_about(frame, needed) if speaks_of(frame, needed) else frame.facts
        if facts.proves(needed):
            continue
        fact = helpful_fact(facts, needed)
        made_up = {
            *frame.state.values.symbol_ranges,
            *frame.state.loops.indices,
            *frame.state.scans,
        }
        if fact is not None and sizes_in(fact).isdisjoint(made_up):
            if isinstance(fact, Compare) and fact.operator == ">=":
                fact = Compare("<=", fact.right, fact.left)
            return show_condition(fact)
    return ""


def _computed(value: Tensor) -> Reach | None:
    """What elements are that depend on numbers alone, computed; None of any others, or of many."""
    needed = _numbers(value)
    if needed is None:
        return None
    arrays: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for each in needed:
            match each.op:
                case ops.Constant(value=number):
                    array = np.full(concrete_shape(each.type.shape), number)
                case ops.Iota():
                    array = np.arange(*concrete_shape(each.type.shape))
                case op:
                    given = [arrays[operand.id] for operand in each.operands]
                    try:
                        array = op.evaluate_all(*given)[each.index]
                    except OutsideError:
                        return None  # another index, which is told by itself
            arrays[each.id] = np.asarray(array).astype(STORED[each.type.dtype])
    low, high = ((int(end(arrays[value.id])),) for end in (np.min, np.max))
    return Reach(low, high, high, low)


def _numbers(value: Tensor) -> list[Tensor] | None:
    """All values that one depends on, in order; None if one is given, or there is much to compute.

    It ends at the first that is given: below an index that a network computes is all of it.
    """
    found: dict[int, Tensor] = {}
    stack, count = [value], 0
    while stack:
        each = stack.pop()
        if each.id in found:
            continue
        count += _count(each)
        if count > MOST_COMPUTED or isinstance(each.op, Leaf | Summarized | Loop):
            return None
        found[each.id] = each
        stack.extend(each.operands)
    return [found[number] for number in sorted(found)]


def _count(value: Tensor) -> int:
    """How many elements a value has; too many to compute where that is no number."""
    sizes = [each for each in value.type.shape if isinstance(each, int)]
    return prod(sizes) if len(sizes) == value.type.rank else MOST_COMPUTED + 1


# --- what elements reach -------------------------------------------------------------------------


def reach_of(frame: Frame, value: Tensor, *, is_stated: bool = False) -> Reach:
    """What is known of the elements of a value; with `is_stated`, a stated number is its symbol."""
    return _Reaches(frame, is_stated=is_stated).of(value)


class _Reaches:
    """What is known of some values, each looked at once."""

    def __init__(self, frame: Frame, *, is_stated: bool) -> None:
        self._frame = frame
        self._is_stated = is_stated
        self._known: dict[int, Reach] = {}

    def of(self, value: Tensor) -> Reach:
        """What is known of the elements of a value."""
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
                last = scan.rounds - 1 if scan.going is None else 0
                return replace(
                    _within((0,), (scan.rounds - 1,)), top=(last,), bottom=(0,),
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
        """What is left by a divisor, which no element is below 0 or as large as."""
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
        """Those bounds that are no less than some bound of each."""

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
    """All axes of a value, unless what it is made of differs along none, and in what rounds."""
    varies = frozenset[object]().union(*(side.varies for side in sides))
    rounds = frozenset(each for each in varies if not isinstance(each, int))
    return rounds.union(range(value.type.rank)) if varies or len([*sides]) > 1 else rounds


def _negative(reach: Reach) -> Reach:
    return Reach(
        _opposite(reach.high), _opposite(reach.low),
        _opposite(reach.bottom), _opposite(reach.top),
        reach.varies, reach.may_wrap, reach.is_full,
    )  # fmt: skip


def _mapped(reach: Reach, apply: Callable[[Size], Size]) -> Reach:
    """What a function that keeps the order makes of elements."""
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
