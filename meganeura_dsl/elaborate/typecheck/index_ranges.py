"""Indices that are out of range whatever a program is fed, held against what they pick from.

An index that reaches what is not there for all sizes is an error. One that does for some is a note,
which says what `where` would exclude it. What only data decides is looked at where it is given, or
while it runs.
"""

import re
from collections.abc import Sequence
from math import prod

from meganeura_dsl.diagnostics.problem import ProblemError, Severity
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.habits import operation_at
from meganeura_dsl.elaborate.problems.proof_failures import helpful_fact
from meganeura_dsl.elaborate.problems.shape_cures import LONGEST
from meganeura_dsl.elaborate.problems.shape_problems import Example, IndexMayOverrun, IndexOverrun
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import Summarized
from meganeura_dsl.elaborate.typecheck.index_reach import Reach, reach_of
from meganeura_dsl.elaborate.typecheck.positions import (
    facts_about,
    speaks_of,
)
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Array, Leaf, dependencies
from meganeura_dsl.ir.index_checks import counted_by, numbers_compared_with
from meganeura_dsl.ir.ops.primitive.broadcast import is_zero
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.ops.primitive.loop import Loop
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Condition, Refuted, show_condition
from meganeura_dsl.symbolic.conditions import negate, sizes_in
from meganeura_dsl.symbolic.size import Size, show, substitute

STORED = {
    DType.I32: "int32", DType.U32: "uint32", DType.F32: "float32", DType.F16: "float16",
    DType.BOOL: "bool",
}  # fmt: skip
"""The types of NumPy that the element types are stored as."""
MOST_COMPUTED = 1 << 16
"""Elements of which the largest and the smallest are found by computing them."""


class FoundIndex(ProblemError):
    """A problem of an index, reported at the end unless the program masks the index."""

    def __init__(
        self, problem: IndexOverrun | IndexMayOverrun, compared: tuple[Tensor, Size] | None
    ) -> None:
        super().__init__(problem)
        self.compared = compared
        """The index and what it is below, if it is compared with what it picks."""

    def is_left_out(self, values: Sequence[Tensor]) -> bool:
        """True if the program compares the index with a number that may stand for none."""
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
    """True if all elements are known to be in range."""
    return any(_holds(frame, _needed(each, count, is_above=True)) for each in reach.high) and any(
        _holds(frame, _needed(each, count, is_above=False)) for each in reach.low
    )


def _holds(frame: Frame, needed: Condition) -> bool:
    return needed if isinstance(needed, bool) else frame.facts.proves(needed)


def check_chosen(frame: Frame, span: Span, value: Tensor) -> None:
    """Note problems of labels that select the terms of a sum: sum(where(a == iota, x, 0)).

    A sum by labels that depend on no input or parameter takes a diagonal, and is not checked.
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
    """Returns the problem of a bound that some element of an index reaches."""
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
    """Returns the text of an index, without outer brackets; empty if it is not short."""
    span = ids.origin.span
    text = " ".join(span.text.split()) if span is not None else ""
    if span is not None and not re.search(r"\w", text):
        text = operation_at(span)
    return text if 0 < len(text) <= LONGEST and re.fullmatch(r"[\w\s+*/%().,-]+", text) else ""


def _needed(bound: Size, count: Size, *, is_above: bool) -> Compare | bool:
    """Returns the condition that a bound is in range; a bool for numbers."""
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
    """Returns the reach of elements that depend on numbers alone; None for others, or many."""
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
                        return None  # another index, which is reported separately
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
    """Returns the number of elements; a number too large to compute if it is symbolic."""
    sizes = [each for each in value.type.shape if isinstance(each, int)]
    return prod(sizes) if len(sizes) == value.type.rank else MOST_COMPUTED + 1
