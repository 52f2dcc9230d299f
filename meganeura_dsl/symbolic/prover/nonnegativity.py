"""Proofs of `size >= 0` where all variables are >= 0 and further sizes are known to be >= 0.

A sum of terms with positive coefficients is >= 0. These rules remove all other terms:

    floor(A/Q) + R >= 0    iff  A + Q*R >= 0                    Q >= 1
    R - floor(A/Q) >= 0    iff  Q*R + Q - 1 - A >= 0            Q >= 1
    T*floor(A/Q) + R >= 0   if  T*(A - Q + 1) + Q*R >= 0        Q >= 1, T >= 0
    R - T*floor(A/Q) >= 0   if  Q*R - T*A >= 0                  Q >= 1, T >= 0
    P >= 0                  if  m*P + m - 1 - t*G >= 0          m > 0, t >= 0, G >= 0
    P >= 0                  if  P >= 0 in each residue class of its variables

As no divisor is zero, Q >= 1 is Q >= 0; floor(A/Q) is floor(-A/-Q) where -Q >= 1. The search is
bounded, so that False means that no proof was found, not that there is none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod

from meganeura_dsl.limits.work_budget import measured, spend
from meganeura_dsl.symbolic.polynomial import (
    Atom,
    Floor,
    as_size,
    divide,
    floors_of,
    in_order,
    is_plainly_nonnegative,
    leading_monomial,
    length_of,
    quotient_of_monomials,
    terms_of,
    variables_of,
)
from meganeura_dsl.symbolic.prover.residue_classes import periods_of, residue_classes
from meganeura_dsl.symbolic.size import Dim, Size, dim, evaluate, rebuild, substitute

# The bounds below end a search that could go on; a lower one leaves more unproved, never less true.
_DEPTHS = (2, 4, 6)
"""Depths of proofs: short ones are looked for first, as there are fewer of them."""
_STEPS = 50
"""Steps of one question at all depths; those proved for the standard models take 4 at most."""
_MOST_CLASSES = 64
"""Residue classes that are proved one by one, each a question of its own."""
_LONGEST = 100
"""Most terms of a size that is tried, those inside its floors included."""


@dataclass(frozen=True)
class Plain:
    """A size is >= 0 by its form."""


@dataclass(frozen=True)
class LeastFloors:
    """A size is >= 0 by its form, once floors are counted from the least they can be."""

    floors: tuple[tuple[Size, Size, int], ...]
    """Numerator, denominator, which is >= 1, and the least value, 1 or 0."""


@dataclass(frozen=True)
class FloorStep:
    """A floor was removed from a size by its bounds."""

    above: Size
    below: Size
    share: Size
    """Coefficient of the floor in the size, without the sign."""
    is_added: bool
    """True if it was added, False if it was subtracted."""
    whole: Size | None = None
    """The size is `share * (whole +- floor)` and a sum that is plainly >= 0; None if not so."""


@dataclass(frozen=True)
class FactStep:
    """`size` was replaced by `scale * size + scale - 1 - share * facts[place]`."""

    place: int
    scale: int
    share: Size


@dataclass(frozen=True)
class Through:
    """A size is >= 0 as what a step makes of it is."""

    step: FloorStep | FactStep
    then: "Reason"


@dataclass(frozen=True)
class InClasses:
    """A size is >= 0 in each residue class of its variables."""

    periods: Mapping[str, int]
    reasons: tuple["Reason", ...]


Reason = Plain | LeastFloors | Through | InClasses
PLAIN = Plain()
_Enough = tuple[Size, FloorStep | FactStep]
"""A size that need only be >= 0, and how it was found."""


def is_nonnegative(size: Size, facts: Iterable[Size] = ()) -> bool:
    """True if `size >= 0` follows from all variables and all `facts` being >= 0.

    It takes the same steps whether or not it was asked before.
    """
    return reason_for(size, facts) is not None


def reason_for(size: Size, facts: Iterable[Size] = ()) -> Reason | None:
    """Returns the reason that `is_nonnegative` holds; None if that was not shown."""
    reason, steps = _measured(size, tuple(facts))
    spend(steps)
    return reason


@lru_cache(maxsize=8192)
def _measured(size: Size, facts: tuple[Size, ...]) -> tuple[Reason | None, int]:
    return measured(lambda: _reason(in_order(size), tuple(map(in_order, facts))))


def _reason(size: Size, facts: tuple[Size, ...]) -> Reason | None:
    steps = iter(range(_STEPS))
    with suppress(_OutOfStepsError):
        for depth in _DEPTHS:
            reason = _Proof(facts, steps).shows(size, depth)
            if reason is not None:
                return reason
    return None


class _OutOfStepsError(Exception):
    """The search has used up its steps."""


class _Proof:
    """A bounded search for a proof, in which no size is tried twice.

    What is negative at one of a few sample points cannot be shown, so it is not tried at all.
    """

    def __init__(self, facts: tuple[Size, ...], steps: Iterator[int]) -> None:
        self._facts = facts
        self._steps = steps
        self._tried: set[Size] = set()
        self._shown: dict[Size, Reason] = {}
        self._points: list[dict[str, int]] | None = None

    def shows(self, size: Size, depth: int) -> Reason | None:
        known = PLAIN if is_plainly_nonnegative(size) else self._shown.get(size)
        if known is not None or isinstance(size, int) or depth <= 0 or size in self._tried:
            return known
        if length_of(size) > _LONGEST:
            return None
        self._tried.add(size)
        if next(self._steps, None) is None:
            raise _OutOfStepsError
        if self._is_negative_somewhere(size):
            return None
        reason = (
            self._by_least_floors(size, depth - 1)
            or self._through(self._by_floors(size, depth - 1), depth - 1)
            or self._through(self._by_facts(size), depth - 2)
            or self._by_residues(size, depth - 1)
        )
        if reason is not None:
            self._shown[size] = reason
        return reason

    def _through(self, steps: Iterable["_Enough"], depth: int) -> Reason | None:
        """The first step to a size that is shown."""
        for enough, step in steps:
            then = self.shows(enough, depth)
            if then is not None:
                return Through(step, then)
        return None

    def _is_negative_somewhere(self, size: Dim) -> bool:
        if self._points is None:
            names = size.variables().union(*map(variables_of, self._facts))
            points = list(_sample_points(sorted(names)))
            self._points = [point for point in points if self._allows(point)]
            if not self._points:
                self._points = [*self._moved(points)]
        for point in self._points:
            try:
                if evaluate(size, point) < 0:
                    return True
            except ZeroDivisionError:
                continue
        return False

    def _allows(self, point: Mapping[str, int]) -> bool:
        try:
            return all(evaluate(fact, point) >= 0 for fact in self._facts)
        except ZeroDivisionError:
            return False

    def _moved(self, points: Iterable[Mapping[str, int]]) -> Iterator[dict[str, int]]:
        """Points moved along one axis after the other to where all facts hold.

        Few points satisfy an equation such as `h*w == 96`, but h follows from w, and w from h.
        """
        for point, is_reverse in product(points, (False, True)):
            moved = dict(point)
            with suppress(ZeroDivisionError):
                for fact in self._facts:
                    for name in sorted(variables_of(fact), reverse=is_reverse):
                        if evaluate(fact, moved) >= 0:
                            break
                        moved[name] = _least_with(fact, name, moved)
                if self._allows(moved):
                    yield moved

    def _by_least_floors(self, size: Dim, depth: int) -> Reason | None:
        """Count each floor from 1 or from 0, where it is known to be no less."""
        least = {floor: self._least(floor, depth) for floor in floors_of(size)}

        def change(atom: Atom) -> Size:
            bound = least.get(atom) if isinstance(atom, Floor) else None
            return as_size(atom) if bound is None else dim(f"floor {atom}") + bound[2]

        if not least or not is_plainly_nonnegative(rebuild(size, change)):
            return None
        return LeastFloors(tuple(bound for bound in least.values() if bound is not None))

    def _least(self, floor: Floor, depth: int) -> tuple[Size, Size, int] | None:
        """The floor upright, and 1 or 0 if it is known to be no less; None otherwise."""
        upright = self._upright(floor, depth)
        if upright is None:
            return None
        above, below = upright
        if self.shows(above - below, depth):
            return above, below, 1
        return (above, below, 0) if self.shows(above, depth) else None

    def _by_floors(self, size: Dim, depth: int) -> Iterator["_Enough"]:
        """Sizes without one of the floors that need only be >= 0 as well."""
        for floor in floors_of(size):
            share, rest = size.split(floor)
            upright = None if floor in floors_of(share) else self._upright(floor, depth)
            if upright is None:
                continue
            if self.shows(share, depth):
                yield from _floor_from_below(*upright, share, rest)
            elif self.shows(-share, depth):
                yield from _floor_from_above(*upright, -share, rest)

    def _upright(self, floor: Floor, depth: int) -> tuple[Size, Size] | None:
        """The numerator and the denominator of a floor, both turned round where that is >= 1 then.

        None where the sign of the denominator is not shown.
        """
        above, below = floor.numerator, floor.denominator
        if self.shows(below, depth):
            return above, below
        if isinstance(below, int) or self._is_negative_somewhere(-below):
            return None
        return (-above, -below) if self.shows(-below, depth) else None

    def _by_facts(self, size: Dim) -> Iterator["_Enough"]:
        """Sizes in which a multiple of a fact has cancelled a term."""
        for place, fact in enumerate(self._facts):
            related = not variables_of(fact).isdisjoint(size.variables())
            if related and length_of(fact) <= _LONGEST:
                yield from _without_a_term(size, fact, place)

    def _by_residues(self, size: Dim, depth: int) -> Reason | None:
        """Prove each residue class for itself; there, floors by constants are polynomials."""
        periods = periods_of(size)
        if not 1 < prod(periods.values()) <= _MOST_CLASSES:
            return None
        reasons: list[Reason] = []
        try:
            for residues in residue_classes(periods):
                reason = self._within(residues).shows(substitute(size, residues), depth)
                if reason is None:
                    return None
                reasons.append(reason)
        except ZeroDivisionError:
            return None
        return InClasses(periods, tuple(reasons))

    def _within(self, residues: Mapping[str, Size]) -> "_Proof":
        """The search in one residue class."""
        return _Proof(tuple(substitute(fact, residues) for fact in self._facts), self._steps)


def _sample_points(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """A few small places: on the diagonal, and with one variable far from all others."""
    for value in (0, 1, 6):
        yield dict.fromkeys(names, value)
    for near, far in ((0, 7), (9, 0)):
        for name in names if len(names) > 1 else ():
            yield {**dict.fromkeys(names, near), name: far}


def _least_with(fact: Size, name: str, point: Mapping[str, int]) -> int:
    """A number for a name that makes a fact hold, if it is linear in it; else the one it has."""
    least = evaluate(fact, {**point, name: 0})
    slope = evaluate(fact, {**point, name: 1}) - least
    bound = -(least // slope) if slope > 0 else least // -slope if slope < 0 else point[name]
    return max(bound, 0)


def _without_a_term(size: Dim, fact: Size, place: int) -> Iterator[_Enough]:
    """Yields conditions that give `size >= 0` from `fact >= 0`; negative terms cancel first."""
    terms = sorted(size.terms.items(), key=lambda term: term[1] > 0)
    for (monomial, coefficient), (other, scale) in product(terms, terms_of(fact).items()):
        left = quotient_of_monomials(monomial, other) if coefficient * scale > 0 else None
        if left is not None and is_plainly_nonnegative(as_size(*left)):
            common = gcd(coefficient, scale)
            times = abs(scale) // common
            share = abs(coefficient) // common * as_size(*left)
            yield times * size + times - 1 - share * fact, FactStep(place, times, share)


def _floor_from_below(above: Size, below: Size, share: Size, rest: Size) -> Iterator[_Enough]:
    """Yields conditions that give `share * floor(above/below) + rest >= 0`, for share >= 0."""
    if isinstance(share, int) or share.terms[leading_monomial(share)] > 0:
        whole, left = divide(rest, share)
        if is_plainly_nonnegative(left):
            yield above + below * whole, FloorStep(above, below, share, is_added=True, whole=whole)
    if share != 1:
        yield (
            share * (above - below + 1) + below * rest,
            FloorStep(above, below, share, is_added=True),
        )


def _floor_from_above(above: Size, below: Size, share: Size, rest: Size) -> Iterator[_Enough]:
    """Yields conditions that give `rest - share * floor(above/below) >= 0`, for share >= 0."""
    if isinstance(share, int) or share.terms[leading_monomial(share)] > 0:
        whole, left = divide(rest, share)
        if is_plainly_nonnegative(left):
            enough = below * whole + below - 1 - above
            yield enough, FloorStep(above, below, share, is_added=False, whole=whole)
    if share != 1:
        yield below * rest - share * above, FloorStep(above, below, share, is_added=False)
