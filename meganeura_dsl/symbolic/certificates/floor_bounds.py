"""Lines that follow from the bounds of floors, where a divisor is 1 at least."""

from __future__ import annotations

from typing import Any, NamedTuple

from meganeura_verify.conditions import lines_of

from meganeura_dsl.symbolic.certificates.lines import Lines
from meganeura_dsl.symbolic.certificates.proofs import at_least
from meganeura_dsl.symbolic.certificates.size_data import condition_data, size_data
from meganeura_dsl.symbolic.certificates.trees import Unexplained
from meganeura_dsl.symbolic.conditions import And, Compare, Or
from meganeura_dsl.symbolic.polynomial import Floor, as_size, floors_of
from meganeura_dsl.symbolic.size import Dim, Size

Json = Any


class _Divided(NamedTuple):
    """A numerator and a divisor as trees write them, and why the divisor is >= 0 and >= 1."""

    above: Json
    below: Json
    nonnegative: Json
    positive: Json
    others: list[Json]
    """Trees for other sizes."""
    facts: list[int]
    """The facts of all these trees."""

    def bound(self, side: str) -> Json:
        """`above - below * floor >= 0`, or what is left of it to `below - 1`."""
        return [side, self.above, self.below, self.positive]


def derive_without_floor(at: Lines, fact: Compare, size: Dim, number: int) -> None:
    """Derive `A + Q*R >= 0` from `floor(A/Q) + R >= 0`, or the like for the other sign.

    `number` is the line that says so of `size`.
    """
    for floor in floors_of(size):
        above, below = floor.numerator, floor.denominator
        share, rest = size.split(floor)
        if share == 1 and fact.left == above + below * rest:
            side = "low"
        elif share == -1 and fact.left == below * rest + below - 1 - above:
            side = "high"
        else:
            continue
        divided = _divided(at, floor)
        tree = _multiple(divided, len(divided.facts), _added(divided.bound(side), 1))
        at.lemma(fact, [{"tree": tree, "facts": [*divided.facts, number]}])
        return


def derive_bounds_of_floors(at: Lines, size: Dim) -> None:
    """Derive what `size == 0` says of the numerators of its floors, as the prover states it."""
    for floor in floors_of(size):
        share, rest = size.split(floor)
        above, below = floor.numerator, floor.denominator
        low = Compare("<", below, 1)
        for sign in (1, -1):
            if share == -sign * below and rest == sign * above:
                fact = Or((low, Compare("<", above, 1), Compare(">=", above, below)))
                _derive_least_multiple(at, fact, floor)
        if isinstance(share, int) and abs(share) == 1:
            left = above + share * rest * below
            inside = Compare(">=", left, 0), Compare("<", left, below)
            _derive_bounds(at, low, inside, share * size, floor)


def _derive_bounds(
    at: Lines, low: Compare, inside: tuple[Compare, Compare], size: Size, floor: Floor
) -> None:
    """Derive that a numerator is within its floor, which `size == 0` gives."""
    fact = Or((low, And(inside)))
    inner = at.where_false(fact, 1)
    equal, divided = inner.signed(size), _divided(inner, floor)
    proofs: list[Json] = []
    for part, side, number in zip(inside, ("low", "high"), (equal, -1 - equal), strict=True):
        if lines_of(condition_data(part)):
            tree = _multiple(divided, len(divided.facts), _added(divided.bound(side), 1))
            proofs.append({"tree": tree, "facts": [*divided.facts, number]})
    at.lemma(fact, [{"other": 1, "steps": inner.steps, "proofs": proofs}])


def _derive_least_multiple(at: Lines, fact: Or, floor: Floor) -> None:
    """Derive that a multiple of the divisor that is >= 1 is no less than the divisor."""
    inner = at.where_false(fact, 2)
    above, below, quotient = floor.numerator, floor.denominator, as_size(floor)
    divided = _divided(inner, floor, above - 1)
    exact = inner.signed(below * quotient - above)
    here, there = len(divided.facts), len(divided.facts) + 1
    positive = divided.positive
    one_less = size_data(inner.raised(quotient) - 1)
    least = ["cut", divided.below, 1, 1, here, positive, 1, divided.others[0]]
    multiple = _multiple(divided, ["shown", one_less, least], 1)
    tree = _added(there, multiple)
    at.lemma(
        fact,
        [
            {
                "other": 2,
                "steps": inner.steps,
                "proofs": [{"tree": tree, "facts": [*divided.facts, exact, -1 - exact]}],
            }
        ],
    )


def _divided(at: Lines, floor: Floor, *others: Size) -> _Divided:
    above, below = floor.numerator, floor.denominator
    try:
        nonnegative, positive, *trees, facts = at_least(at, below, below - 1, *others)
        why = ["tree", positive]
    except Unexplained:
        nonnegative, *trees, facts = at_least(at, below, *others)
        why = ["divisor", nonnegative]
    written = size_data(at.raised(above)), size_data(at.raised(below))
    return _Divided(*written, nonnegative, why, trees, facts)


def _added(source: Json, then: Json) -> Json:
    """The rule that a size is >= 0 as it is without something that is >= 0."""
    return ["cut", 1, 0, 1, source, 0, 1, then]


def _multiple(divided: _Divided, source: Json, then: Json) -> Json:
    """The same for a multiple by the divisor."""
    return ["cut", 1, 0, divided.below, source, 0, divided.nonnegative, then]
