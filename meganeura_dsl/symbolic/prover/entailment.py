"""Entailment: the sound half of every decision."""

from math import gcd, prod
from typing import Literal, assert_never

from meganeura_dsl.symbolic.conditions import And, Compare, Condition, Flag, Not, Or, negate
from meganeura_dsl.symbolic.polynomial import (
    as_size,
    common_monomial,
    divide,
    is_plainly_nonnegative,
    terms_of,
)
from meganeura_dsl.symbolic.prover.nonnegativity import is_nonnegative
from meganeura_dsl.symbolic.prover.residue_classes import (
    is_zero_everywhere,
    periods_of,
    residue_classes,
)
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, substitute

Sign = Literal["==", "!=", ">="]
"""The relation of a size to 0."""

_MOST_CLASSES = 64
"""Residue classes that are proved one by one, each with its own bounds."""


def follows(condition: Condition, known: SolverState) -> bool:
    """True if a condition follows from the solver state, each part for itself."""
    if known.is_contradictory:
        return True
    match condition:
        case bool():
            return condition
        case Compare():
            try:
                return _comparison_follows(condition, known)
            except ZeroDivisionError:
                return False
        case Flag(name):
            return known.flags.get(name) is True
        case Not(Flag(name)):
            return known.flags.get(name) is False
        case Not(part):
            return follows(negate(part), known)
        case And(parts):
            return all(follows(part, known) for part in parts)
        case Or(parts):
            return any(follows(part, known) for part in parts)
        case _:
            assert_never(condition)


def is_plain(condition: Condition, known: SolverState) -> bool:
    """True if a condition holds by the form of its sizes alone, a quick test."""
    if not isinstance(condition, Compare):
        return condition is True
    try:
        sign, size = reduced(condition, known)
    except ZeroDivisionError:
        return False
    if isinstance(size, int):
        return {"==": size == 0, "!=": size != 0, ">=": size >= 0}[sign]
    least = 1 if sign == "!=" else 0
    return sign != "==" and is_plainly_nonnegative(known.raised(size) - least)


def reduced(condition: Compare, known: SolverState) -> tuple[Sign, Size]:
    """Returns the relation of a reduced size to 0 that is equivalent to the condition."""
    sign, difference = sign_of(condition)
    return sign, known.reduce(difference)


def sign_of(condition: Compare) -> tuple[Sign, Size]:
    """The sign and the size that has it: `h > k` is `h - k - 1 >= 0`."""
    left, right = condition.left, condition.right
    match condition.operator:
        case "==" | "!=" | ">=":
            return condition.operator, left - right
        case "<=":
            return ">=", right - left
        case ">":
            return ">=", left - right - 1
        case "<":
            return ">=", right - left - 1
        case _:
            assert_never(condition.operator)


def _comparison_follows(condition: Compare, known: SolverState) -> bool:
    sign, size = reduced(condition, known)
    match sign:
        case "==":
            return is_zero(size, known)
        case "!=":
            plain = known.solved(sign_of(condition)[1])
            return is_nonzero(size, known) or (plain != size and is_nonzero(plain, known))
        case ">=":
            # Equalities that say nothing about signs, such as a multiple of its own quotient, may
            # hide that a product is positive; it is also seen as it was before they were used.
            plain = known.solved(sign_of(condition)[1])
            return is_at_least(size, 0, known) or (plain != size and is_at_least(plain, 0, known))
        case _:
            assert_never(sign)


def is_at_least(size: Size, least: int, known: SolverState) -> bool:
    """True if a reduced size was shown to be no less than a number."""
    if isinstance(size, int):
        return size >= least
    return is_nonnegative(known.raised(size) - least, known.raised_facts)


def is_zero(size: Size, known: SolverState) -> bool:
    """True if a reduced size was shown to be 0."""
    if isinstance(size, int):
        return size == 0
    if is_zero_everywhere(size):
        return True
    raised, facts = known.raised(size), known.raised_facts
    return is_nonnegative(raised, facts) and is_nonnegative(-raised, facts)


def is_nonzero(size: Size, known: SolverState) -> bool:
    """True if a reduced size was shown not to be 0."""
    if isinstance(size, int):
        return size != 0
    if known.nonzero:
        simple = without_factors(size, "!=", known)
        if simple in known.nonzero or -simple in known.nonzero:
            return True
    raised, facts = known.raised(size), known.raised_facts
    return (
        _is_nonzero_by_residues(raised)
        or is_nonnegative(raised - 1, facts)
        or is_nonnegative(-raised - 1, facts)
    )


def without_factors(size: Dim, sign: Sign, known: SolverState) -> Dim:
    """A simpler size with the same sign: divided by numbers and by what is known to be positive.

    `g*P + r >= 0` is equivalent to `P + floor(r / g) >= 0`.
    """
    for atom in common_monomial(size.terms):
        share, _ = size.split(atom)
        if isinstance(share, Dim) and is_at_least(as_size(atom), 1, known):
            size = share
    weighed = (value for monomial, value in size.terms.items() if monomial or sign != ">=")
    share, _ = divide(size, gcd(*weighed))
    return share if isinstance(share, Dim) else size


def without_outer_floor(size: Size, known: SolverState) -> Size | None:
    """A size that is >= 0 exactly where this one is, without one of its floors.

    `floor(A/Q) + R >= 0` is `A + Q*R >= 0`, and `R >= floor(A/Q)` is `Q*R + Q > A`, for Q >= 1,
    which is Q >= 0, as a divisor is not zero.
    """
    if isinstance(size, int):
        return None
    for floor in size.floors():
        above, below = floor.numerator, floor.denominator
        share, rest = size.split(floor)
        if share == 1 and is_at_least(below, 0, known):
            return above + below * rest
        if share == -1 and is_at_least(below, 0, known):
            return below * rest + below - 1 - above
    return None


def _is_nonzero_by_residues(size: Size) -> bool:
    """True if the size, in each residue class, has a sign or is no multiple of some number."""
    if _is_nonzero_class(size):
        return True
    periods = periods_of(size)
    if not 1 < prod(periods.values()) <= _MOST_CLASSES:
        return False
    return all(
        _is_nonzero_class(substitute(size, residues)) for residues in residue_classes(periods)
    )


def _is_nonzero_class(size: Size) -> bool:
    terms = terms_of(size)
    constant = terms.get((), 0)
    divisor = gcd(*(value for monomial, value in terms.items() if monomial))
    if constant % divisor if divisor else constant:
        return True
    return is_plainly_nonnegative(size - 1) or is_plainly_nonnegative(-size - 1)
