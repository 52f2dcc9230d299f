"""Whole numbers of the graph, as sizes the prover knows.

Of an input `p: i32[]` that facts are stated about, the symbol is 0 or more in a proof, and a caller
proves the facts of what it gives. Where data is fed, they are assumed, and the indices that they
are about are checked.

`where 0 <= ids, ids < words` states facts about every element of an input `ids: i32[n, s]`. Its
symbol is any element. What is read from such a tensor is another element, so it is a symbol of its
own, of which the same is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from meganeura_dsl.elaborate.scope.new_symbols import new_symbol
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.values import (
    Tensor,
    is_assumed_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Facts
from meganeura_dsl.symbolic.conditions import sizes_in, with_sizes
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute

POSITION = TensorType(DType.I32, ())
Bounds = tuple[Size, ...]
Invariants = tuple[tuple[Literal["<=", ">="], Size], ...]
"""Bounds of all elements of a value."""


def position_of(frame: Frame, value: Tensor) -> Size | None:
    """The size that a whole number of the graph is, or that any element of several is.

    None where the prover knows nothing of it.
    """
    return _element_of(frame, value).size


def whole_number(state: ElaborationState, value: Tensor) -> Size | None:
    """The size that a whole number is, if nothing is known of it but what is stated of the size."""
    size = state.values.symbolic_ints.get(value.id)
    if value.type != POSITION:
        return None
    if (
        isinstance(value.op, ops.Constant)
        and size is None
        and isinstance(value.op.value, int | Dim)
    ):
        return value.op.value
    if isinstance(size, Dim) and not size.variables().isdisjoint(state.values.symbol_ranges):
        return None
    return size


def unconstrained_element(frame: Frame, value: Tensor) -> Dim | None:
    """A symbol for any element of an input as it came, of which `where` states nothing.

    What a block needs of it is not proved but assumed: whoever feeds it has it checked.
    """
    if not _is_free(frame, value):
        return None
    symbol = frame.state.values.symbolic_ints.get(value.id)
    if symbol is None:
        symbol = frame.state.values.symbolic_ints[value.id] = _new_element(frame)
    frame.state.values.symbol_ranges.setdefault(str(symbol), ())
    frame.state.values.unconstrained_indices.add(value.id)
    frame.build.facts = frame.facts.with_lower_bound(str(symbol), 0)
    assert isinstance(symbol, Dim)
    return symbol


def _is_free(frame: Frame, value: Tensor) -> bool:
    """True if several whole numbers are an input as it came, of which nothing is stated."""
    several = value.type != POSITION
    while True:
        if (
            value.id in frame.state.values.symbolic_ints
            and value.id not in frame.state.values.unconstrained_indices
        ):
            return False
        source = _moved_from(frame, value)
        if source is None:
            break
        value = source
    is_input = isinstance(value.op, ops.Input) and not is_assumed_tensor(value)
    return several and is_input and value.type.dtype is DType.I32


def facts_about(frame: Frame, condition: Condition) -> Facts:
    """Returns facts about the sizes here, and about the graph's whole numbers in a condition."""
    ranges = frame.state.values.symbol_ranges
    found: set[str] = set()
    waiting = sizes_in(condition) & ranges.keys()
    while waiting:
        found |= waiting
        about = frozenset[str]().union(
            *(sizes_in(each) for name in waiting for each in ranges[name])
        )
        waiting = (about & ranges.keys()) - found
    # What a symbol is computed from was made before it: its bounds come first.
    names = [name for name in ranges if name in found]
    facts = frame.facts
    for name in names:
        facts = facts.with_lower_bound(name, 0)
    for known in chain.from_iterable(ranges[name] for name in names):
        facts = facts.assume(known)
    return facts


def stated_bounds(frame: Frame, size: Size) -> tuple[Bounds, Bounds]:
    """Returns the lower and upper bounds of a stated whole number, in sizes alone."""
    whole_numbers = symbols(frame)
    own = _variables(size) & whole_numbers
    ranges = (frame.state.values.symbol_ranges.get(name, ()) for name in sorted(own))
    known = [*frame.facts.stated, *chain.from_iterable(ranges)]
    bounds = [
        (operator, bound)
        for fact in known
        if not own.isdisjoint(sizes_in(fact))
        for operator, bound in bounds_in(fact, size)
        if _variables(bound).isdisjoint(whole_numbers)
    ]
    least = substitute(size, dict.fromkeys(own, 0))
    low = [bound for operator, bound in bounds if operator == ">="]
    if frame.facts.proves(Compare(">=", size, least)):
        low.insert(0, least)
    return tuple(low), tuple(bound for operator, bound in bounds if operator == "<=")


def bounds_of(frame: Frame, value: Tensor) -> Invariants:
    """Returns the known bounds of every element of a value, in sizes alone."""
    found = _element_of(frame, value)
    known = symbols(frame) | frame.state.values.symbol_ranges.keys()
    bounds: list[tuple[Literal["<=", ">="], Size]] = [
        *((">=", bound) for bound in found.low),
        *(("<=", bound) for bound in found.high),
    ]
    return tuple(each for each in dict.fromkeys(bounds) if _variables(each[1]).isdisjoint(known))


def assume_bounds(frame: Frame, value: Tensor, bounds: Invariants) -> None:
    """Take every element of a value to be between bounds, of which one has to be a lower one.

    One that may be below 0 is a symbol and that bound: `at - 1` of a label of -1 or more.
    """
    low, high = (tuple(size for each, size in bounds if each == sign) for sign in (">=", "<="))
    found = _within(frame, low, high).size
    if found is None and low:
        least = low[0]
        apart = tuple(each - least for each in low), tuple(each - least for each in high)
        symbol = _within(frame, *apart).size
        found = None if symbol is None else symbol + least
    if found is not None:
        frame.state.values.symbolic_ints[value.id] = found


def kept_bounds(frame: Frame, value: Tensor, bounds: Invariants) -> Invariants:
    """Returns those of the bounds on whose side every element of a value is known to be."""
    found = _element_of(frame, value)

    def holds(operator: Literal["<=", ">="], bound: Size) -> bool:
        known = found.narrowest(found.low if operator == ">=" else found.high)
        return _is_on_side(frame, operator, known, bound)

    return tuple(each for each in bounds if holds(*each))


def _is_on_side(frame: Frame, operator: Literal["<=", ">="], known: Bounds, bound: Size) -> bool:
    """True if one of the known bounds is on this side of another."""
    facts = (Compare(operator, each, bound) for each in known)
    return any(facts_about(frame, fact).proves(fact) for fact in facts)


def symbols(frame: Frame) -> frozenset[str]:
    """The symbols that stand for whole numbers of the graph."""
    state = frame.state
    known = [
        *state.values.symbolic_ints.values(),
        *(size for _, size in state.values.derived_ints.values()),
    ]
    return frozenset[str]().union(*map(_variables, known)) & state.values.lasting_symbols


def speaks_of(frame: Frame, condition: Condition) -> bool:
    """True if a condition is about a whole number of the graph."""
    return not sizes_in(condition).isdisjoint(symbols(frame))


@dataclass(frozen=True)
class _Element:
    """Bounds of any element of a tensor of whole numbers."""

    size: Size | None = None
    """The size that it is, if the prover knows it."""
    low: Bounds = ()
    """Lower bounds."""
    high: Bounds = ()
    """Upper bounds."""

    def narrowest(self, bounds: Bounds) -> Bounds:
        """Returns the tightest of the bounds: the size itself, if it is known."""
        return bounds if self.size is None else (self.size,)


def _element_of(frame: Frame, value: Tensor) -> _Element:
    """Returns bounds of any element of a value of the graph."""
    if value.type.dtype is not DType.I32:
        return _Element()
    known = _known(frame, value)
    if known is not None:
        return _sized(frame, known if value.type == POSITION else _another(frame, known))
    for scan in frame.state.scans.values():
        if scan.region.time is value:
            return _sized(frame, scan.index - scan.start)
    source = _moved_from(frame, value)
    found = _computed(frame, value) if source is None else _element_of(frame, source)
    if found.size is not None and value.type == POSITION:
        if not _variables(found.size).isdisjoint(frame.state.values.symbol_ranges):
            frame.state.values.derived_ints[value.id] = frame.facts.stated, found.size
        elif source is not None:
            frame.state.values.symbolic_ints[value.id] = found.size
    return found


def _known(frame: Frame, value: Tensor) -> Size | None:
    """The size that a whole number is stated to be, or was found to be by facts that hold here."""
    size = frame.state.values.symbolic_ints.get(value.id)
    if size is None and value.id in frame.state.values.derived_ints:
        by, found = frame.state.values.derived_ints[value.id]
        size = found if frame.facts.stated[: len(by)] == by else None
    return size


def _computed(frame: Frame, value: Tensor) -> _Element:
    """Returns bounds of an element that is computed from others."""
    sides = [_element_of(frame, each) for each in value.operands]
    match value.op, [each.size for each in sides]:
        case ops.Constant(value=int() | Dim() as number), []:
            return _sized(frame, number)
        case ops.Add(), [int() | Dim() as left, int() | Dim() as right]:
            return _sized(frame, left + right)
        case ops.Sub(), [int() | Dim() as left, int() | Dim() as right]:
            return _sized(frame, left - right)
        case ops.Mul(), [int() | Dim() as left, int() | Dim() as right]:
            return _sized(frame, left * right)
        case ops.Neg(), [int() | Dim() as size]:
            return _sized(frame, -size)
        case ops.FloorDivide(divisor=divisor), [int() | Dim() as size]:
            return _sized(frame, size // divisor)
        case ops.Remainder(divisor=divisor), [int() | Dim() as size]:
            return _sized(frame, size % divisor)
        case ops.Iota(size=size) | ops.Remainder(divisor=size), _:
            return _within(frame, (0,), (size - 1,))
        case ops.ArgMax(axis=axis), _:
            return _within(frame, (0,), (value.operands[0].type.shape[axis] - 1,))
        case ops.Sort(axis=axis), _ if value.index:
            return _within(frame, (0,), (value.type.shape[axis] - 1,))
        case (ops.Minimum() | ops.Maximum() | ops.Concat(), _):
            return _one_of(frame, value, sides)
        case ops.Where(), _:
            return _one_of(frame, value, sides[1:])
        case _:
            return _Element()


def _one_of(frame: Frame, value: Tensor, sides: Sequence[_Element]) -> _Element:
    """Returns bounds of an element that is one of several: the least, the largest, or any."""
    low = tuple(dict.fromkeys(chain.from_iterable(each.low for each in sides)))
    high = tuple(dict.fromkeys(chain.from_iterable(each.high for each in sides)))
    if not isinstance(value.op, ops.Maximum):
        low = _of_each(frame, ">=", low, [each.narrowest(each.low) for each in sides])
    if not isinstance(value.op, ops.Minimum):
        high = _of_each(frame, "<=", high, [each.narrowest(each.high) for each in sides])
    return _within(frame, low, high)


def _of_each(
    frame: Frame, operator: Literal["<=", ">="], sizes: Bounds, bounds: Sequence[Bounds]
) -> Bounds:
    """Returns the sizes that are no narrower than some bound of each number."""
    return tuple(
        size for size in sizes if all(_is_on_side(frame, operator, of, size) for of in bounds)
    )


def _within(frame: Frame, low: Bounds, high: Bounds) -> _Element:
    """A new symbol for an element between bounds, if it is known to be 0 at least."""
    conditions = [Compare(">=", each, 0) for each in low]
    if not any(facts_about(frame, each).proves(each) for each in conditions):
        return _Element(None, low, high)
    symbol = _new_element(frame)
    frame.state.values.symbol_ranges[str(symbol)] = (
        *(Compare(">=", symbol, each) for each in low),
        *(Compare("<=", symbol, each) for each in high),
    )
    return _sized(frame, symbol)


def _sized(frame: Frame, size: Size) -> _Element:
    """An element that is a size, and what facts say that it is between; a symbol is 0 or more."""
    ranges = frame.state.values.symbol_ranges
    stated = [*frame.facts.stated]
    for name in sorted(_variables(size)):
        stated += ranges.get(name, ())
    known = [fact for fact in stated if not _variables(size).isdisjoint(sizes_in(fact))]
    own = _variables(size) & ranges.keys()
    bounds = [
        (operator, bound)
        for fact in known
        for operator, bound in bounds_in(fact, size, own or None)
        if _variables(bound).isdisjoint(ranges)  # what they are above or below is learned of them
    ]
    low = [bound for operator, bound in bounds if operator == ">="]
    high = [bound for operator, bound in bounds if operator == "<="]
    is_symbol = any(size == dim(name) for name in _variables(size))
    return _Element(size, (size, *([0] if is_symbol else []), *low), (size, *high))


def bounds_in(
    fact: Condition, size: Size, own: frozenset[str] | None = None
) -> Iterator[tuple[Literal["<=", ">="], Size]]:
    """Bounds that a fact states of a size, in other sizes than its `own`: all of it by default.

    Of an element `at - k` the symbol is its own, and k may stand in a bound.
    """
    own = _variables(size) if own is None else own
    match fact:
        case And(parts):
            for part in parts:
                yield from bounds_in(part, size, own)
        case Compare("<=" | "<" as operator, left, right) | Compare(
            ">=" | ">" as operator, right, left
        ):
            apart = 1 if operator in ("<", ">") else 0
            above, below = right - left + size - apart, left - right + size + apart
            if own.isdisjoint(_variables(above)):
                yield "<=", above
            if own.isdisjoint(_variables(below)):
                yield ">=", below
        case _:
            pass


def _variables(size: Size) -> frozenset[str]:
    return size.variables() if isinstance(size, Dim) else frozenset()


def _new_element(frame: Frame) -> Dim:
    """A symbol for an element, or for a number that is computed."""
    name = new_symbol(f"at{len(frame.state.values.symbol_ranges)}", frame)
    frame.state.values.lasting_symbols.add(name)
    return dim(name)


def _another(frame: Frame, size: Size) -> Size:
    """An element of which the same is known as of another, with its own symbol."""
    for symbol in sorted(_variables(size) & frame.state.values.lasting_symbols):
        known = (*frame.facts.stated, *frame.state.values.symbol_ranges.get(symbol, ()))
        about = [fact for fact in known if symbol in sizes_in(fact)]
        name = new_symbol(f"{symbol}'", frame)
        frame.state.values.lasting_symbols.add(name)
        other = dim(name)
        frame.state.values.symbol_ranges[name] = tuple(
            with_sizes(fact, {symbol: other}) for fact in about
        )
        size = substitute(size, {symbol: other})
    return size


def _moved_from(frame: Frame, value: Tensor) -> Tensor | None:
    """The value that has all elements of another, if there is one: also of an iteration's slice."""
    if Trait.VIEW in value.op.traits or isinstance(value.op, ops.Gather | ops.DynamicSlice):
        return value.operands[0]
    slices = (scan.region.slices.get(value.id) for scan in frame.state.scans.values())
    return next((each.source for each in slices if each is not None), None)
