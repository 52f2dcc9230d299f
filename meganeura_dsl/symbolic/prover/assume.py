"""Adding a fact to the solver state, and entailment by case analysis.

An equality is solved for a variable where possible; other facts become polynomials with a sign.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from meganeura_dsl.limits.language_limits import LEARNING
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, spend, within
from meganeura_dsl.symbolic.conditions import And, Compare, Condition, Flag, Not, Or, negate
from meganeura_dsl.symbolic.polynomial import Floor, floors_of, leading_monomial
from meganeura_dsl.symbolic.prover.elimination import Solution, linear_variables, solve
from meganeura_dsl.symbolic.prover.entailment import (
    follows,
    is_at_least,
    reduced,
    sign_of,
    without_factors,
    without_outer_floor,
)
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, dim, substitute

_MOST_STEPS = 200
"""Facts that follow from one and are added; the standard models have 7 at most."""

Step = tuple[SolverState, Iterable[Condition]]
"""The state, and the facts still to be added."""


Watch = Callable[[SolverState, Condition, SolverState, Sequence[Condition]], None]
"""Called with a state, a fact that it absorbs, the state with it, and what is to be added then."""


def assume(known: SolverState, condition: Condition, watch: Watch | None = None) -> SolverState:
    """The state with one more fact, and with earlier facts simplified by it.

    Consequences that would take too many steps are left out: less is proved, nothing wrongly.
    """
    waiting = deque([condition])
    budget = Budget(LEARNING)
    for _ in range(_MOST_STEPS):
        if not waiting or known.is_contradictory:
            break
        try:
            with within(budget):
                after, further = _absorb(known, waiting[0])
        except ZeroDivisionError:  # a fact that contains a quotient implies that it exists
            after, further = known.contradicted(), ()
        except OutOfWorkError:
            spend(0)
            return _with_bounds(known, waiting)
        further = tuple(further)
        if watch is not None:
            watch(known, waiting[0], after, further)
        known = after
        waiting.popleft()
        waiting.extend(further)
    return known


def _with_bounds(known: SolverState, facts: Iterable[Condition]) -> SolverState:
    """The state with those of the facts that are bounds, as they are."""
    bounds: list[Dim] = []
    for fact in facts:
        if not isinstance(fact, Compare):
            continue
        try:
            sign, size = sign_of(fact)
            size = known.solved(size)
        except ZeroDivisionError:
            continue
        except OutOfWorkError:  # one that is too large to be written as a bound
            spend(0)
            continue
        bounds += [size] if sign == ">=" and isinstance(size, Dim) else []
    return replace(known, nonnegative=(*known.nonnegative, *bounds)) if bounds else known


def entails(known: SolverState, condition: Condition, splits: int = 2) -> bool:
    """True if a condition was shown to follow, by cases if need be."""
    if follows(condition, known):
        return True
    match condition:
        case And(parts):
            return all(entails(known, part, splits) for part in parts)
        case Or(parts) if len(parts) > 1:
            return any(
                _entails_last(known, parts[i:] + parts[:i], splits) for i in range(len(parts))
            )
        case Not(part) if not isinstance(part, Flag):
            return entails(known, negate(part), splits)
        case _:
            return splits > 0 and _entails_by_cases(known, condition, splits - 1)


def _entails_last(known: SolverState, parts: tuple[Condition, ...], splits: int) -> bool:
    """True if the last part follows where all others are false."""
    return entails(assume(known, negate(Or(parts[:-1]))), parts[-1], splits)


def _entails_by_cases(known: SolverState, condition: Condition, splits: int) -> bool:
    if not known.choices:
        return False
    choice, *others = known.choices
    apart = replace(known, choices=tuple(others))
    return all(entails(assume(apart, part), condition, splits) for part in choice.parts)


def _absorb(known: SolverState, condition: Condition) -> Step:
    match condition:
        case bool():
            return (known if condition else known.contradicted()), ()
        case Flag(name):
            return _absorb_flag(known, name, value=True)
        case Not(Flag(name)):
            return _absorb_flag(known, name, value=False)
        case Not(part):
            return known, [negate(part)]
        case And(parts):
            return known, parts
        case Or(parts):
            return _absorb_choice(known, parts)
        case Compare():
            return _absorb_comparison(known, condition)
        case _:
            assert_never(condition)


def _absorb_flag(known: SolverState, name: str, *, value: bool) -> Step:
    if known.flags.get(name, value) is not value:
        return known.contradicted(), ()
    return replace(known, flags={**known.flags, name: value}, choices=()), known.choices


def _absorb_choice(known: SolverState, parts: Iterable[Condition]) -> Step:
    if any(follows(part, known) for part in parts):
        return known, ()
    left = tuple(part for part in parts if not follows(negate(part), known))
    if len(left) == 1:
        return known, left
    if not left:
        return known.contradicted(), ()
    return replace(known, choices=(*known.choices, Or(left))), ()


def _absorb_comparison(known: SolverState, condition: Compare) -> Step:
    if follows(condition, known):
        return known, ()
    sign, size = reduced(condition, known)
    if isinstance(size, int) or follows(negate(condition), known):
        return known.contradicted(), ()
    size = without_factors(size, sign, known)
    match sign:
        case "==":
            return _absorb_zero(known, size)
        case "!=":
            return _absorb_nonzero(known, size)
        case ">=":
            return _absorb_nonnegative(known, size)
        case _:
            assert_never(sign)


def _absorb_zero(known: SolverState, size: Dim) -> Step:
    solution = solve(size, known)
    if solution is not None:
        bound = Compare(">=", solution.value, known.least_of(solution.name))
        rest = [bound, Compare("==", size, 0), *known.unsolved_part()]
        return _with_solution(known, solution), rest
    if size.terms[leading_monomial(size)] < 0:
        size = -size
    kept = replace(known.solved_part(), zero=(*known.zero, size))
    return kept, [*_bounds_of_floor(size), *replace(known, zero=()).unsolved_part()]


def _with_solution(known: SolverState, solution: Solution) -> SolverState:
    """The solved part of the knowledge, with a variable replaced by its value."""
    change = {solution.name: solution.value}
    values = {name: substitute(value, change) for name, value in known.values.items()}
    least = {name: bound for name, bound in known.least.items() if name != solution.name}
    quotients = dict(known.quotients)
    if solution.quotient is not None:
        least[solution.quotient.name] = solution.quotient.least
        quotients[solution.quotient.name] = solution.quotient.meaning
    return SolverState(least, values | change, quotients, flags=known.flags)


def _bounds_of_floor(size: Dim) -> Iterator[Condition]:
    """Yields the facts about A that `floor(A/Q) == E` and `A % Q == 0` imply.

    No harm is done where Q could be negative or 0.
    """
    for floor in floors_of(size):
        share, rest = size.split(floor)
        for sign in (1, -1):
            if share == -sign * floor.denominator and rest == sign * floor.numerator:
                yield _least_multiple(floor)
        if isinstance(share, int) and abs(share) == 1:
            left = floor.numerator + share * rest * floor.denominator
            yield Or(
                (
                    Compare("<", floor.denominator, 1),
                    And((Compare(">=", left, 0), Compare("<", left, floor.denominator))),
                )
            )


def _least_multiple(floor: Floor) -> Condition:
    """Returns the bound that `A % Q == 0` implies: a positive multiple of Q is at least Q."""
    above, below = floor.numerator, floor.denominator
    is_less = Compare("<", below, 1), Compare("<", above, 1)
    return Or((*is_less, Compare(">=", above, below)))


def _absorb_nonzero(known: SolverState, size: Dim) -> Step:
    for sign in (1, -1):
        if is_at_least(sign * size, 0, known):
            return known, [Compare(">=", sign * size, 1)]
    return replace(known, nonzero=(*known.nonzero, size)), ()


def _absorb_nonnegative(known: SolverState, size: Dim) -> Step:
    exact = without_outer_floor(size, known)
    if exact is not None and len(floors_of(known.reduce(exact))) < len(floors_of(size)):
        return known, [Compare(">=", exact, 0)]
    if is_at_least(-size, 0, known):
        return known, [Compare("==", size, 0)]
    for name, _ in linear_variables(size):
        bound = dim(name) - size
        if isinstance(bound, int):
            raised = replace(known.solved_part(), least={**known.least, name: bound})
            return raised, known.unsolved_part()
    kept = replace(known, nonnegative=(*known.nonnegative, size), nonzero=(), choices=())
    return kept, replace(known, zero=(), nonnegative=()).unsolved_part()
