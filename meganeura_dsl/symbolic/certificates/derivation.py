"""Derivation of the lines of a certificate from facts, step by step as the prover learns them.

A `Derivation` watches the prover absorb facts. For everything that the prover keeps, it adds steps
that derive the line which says so, each checked as it is added. What has no line is not known: a
proof that needs it is not written, and `Unexplained` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from meganeura_verify.conditions import FALSE, lines_of

from meganeura_dsl.symbolic.certificates.floor_bounds import (
    derive_bounds_of_floors,
    derive_without_floor,
)
from meganeura_dsl.symbolic.certificates.lines import Lines
from meganeura_dsl.symbolic.certificates.proofs import at_least, followed
from meganeura_dsl.symbolic.certificates.size_data import condition_data, size_data
from meganeura_dsl.symbolic.certificates.solutions import derive_solution
from meganeura_dsl.symbolic.conditions import (
    And,
    Compare,
    Condition,
    Flag,
    Not,
    Or,
    atoms_of,
    negate,
)
from meganeura_dsl.symbolic.polynomial import (
    common_monomial,
    floors_of,
)
from meganeura_dsl.symbolic.prover.elimination import solve
from meganeura_dsl.symbolic.prover.entailment import (
    Sign,
    follows,
    reduced,
    sign_of,
    without_factors,
)
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim

Json = Any


class Derivation(Lines):
    """The lines that follow as the prover learns facts."""

    def explain(self, fact: Condition, after: SolverState, further: Sequence[Condition]) -> None:
        """Derive what the prover keeps where it absorbs a fact, and what it adds then."""
        try:
            self._explain(fact, after, further)
        except ZeroDivisionError:
            self._no_division(fact)

    def _explain(self, fact: Condition, after: SolverState, further: Sequence[Condition]) -> None:
        if after is self.known and not further:
            return
        match fact:
            case Compare():
                self._comparison(fact, after, further)
            case Or():
                self._choice(fact, after, further)
            case Flag() | Not(Flag()) if after.is_contradictory:
                self.step({"clash": [self.line(fact), self.line(negate(fact))]})
            case bool() | And() | Not() | Flag():
                pass
            case _:
                assert_never(fact)

    def _no_division(self, fact: Condition) -> None:
        """Derive that a fact is false, as other facts make a divisor of it 0."""
        for compared in atoms_of(fact):
            if not isinstance(compared, Compare):
                continue
            for divisor in _divisors(compared.left - compared.right):
                if self.known.reduce(divisor) == 0:
                    number = self.line(fact)
                    number = self.step({"divisor": size_data(divisor), "of": number})
                    self.step({"rewrite": number, **self.how(divisor)})
                    return

    def _comparison(self, fact: Compare, after: SolverState, further: Sequence[Condition]) -> None:
        known = self.known
        number = self.line(fact)
        sign, size = reduced(fact, known)
        if how := self.how(sign_of(fact)[1]):
            count = len(self.scope.lines)
            self.step({"rewrite": number, **how})
            if len(self.scope.lines) == count:
                return
        if isinstance(size, int):
            return
        if after.is_contradictory:
            self.exclude(fact)
            return
        smaller = without_factors(size, sign, known)
        self._without_factors(size, smaller, sign)
        match sign:
            case "==":
                self._equality(smaller)
            case "!=":
                for condition in further:
                    self._above(smaller, condition)
            case ">=":
                self._bound(smaller, after, further)
            case _:
                assert_never(sign)

    def _without_factors(self, size: Dim, smaller: Dim, sign: Sign) -> None:
        """Derive a comparison without factors that are positive."""
        known = self.known
        for atom in common_monomial(size.terms):
            share, _ = size.split(atom)
            factor = dim(atom) if isinstance(atom, str) else Dim({(atom,): 1})
            if isinstance(share, Dim) and follows(Compare(">=", factor, 1), known):
                self._divided(size, share, factor, sign)
                size = share
        if size != smaller:
            lead = next(monomial for monomial in smaller.terms if monomial)
            self._divided(size, smaller, size.terms[lead] // smaller.terms[lead], sign)

    def _divided(self, size: Dim, share: Dim, factor: Size, sign: Sign) -> None:
        number = self.line(Compare(sign, size, 0))
        scale = size_data(self.raised(factor))
        if sign == "!=":
            self.lemma(Compare("!=", share, 0), [{"factor": size_data(factor), "of": number}])
            return
        positive, facts = at_least(self, factor - 1)
        here = len(facts)
        cut = ["cut", scale, 1, 1, here, ["tree", positive], 1, positive]
        if sign == ">=":
            proof = {"tree": cut, "facts": [*facts, number]}
        else:
            cut = ["cut", scale, 0, 1, here, ["tree", positive], 1, 1]
            back = ["cut", scale, 0, 1, here + 1, ["tree", positive], 1, 1]
            proof = {"both": [cut, back], "facts": [*facts, self.signed(size), self.signed(-size)]}
        self.lemma(Compare(sign, share, 0), [proof])

    def _equality(self, size: Dim) -> None:
        solution = solve(size, self.known)
        if solution is not None:
            derive_solution(self, size, solution)
            return
        derive_bounds_of_floors(self, size)

    def _above(self, size: Dim, fact: Condition) -> None:
        """Derive `size >= 1` or `-size >= 1` from `size != 0`, as one sign is excluded."""
        assert isinstance(fact, Compare)
        tree, facts = at_least(self, fact.left)
        number = self.line(Compare("!=", size, 0))
        self.lemma(fact, [{"above": number, "tree": tree, "facts": facts}])

    def _bound(self, size: Dim, after: SolverState, further: Sequence[Condition]) -> None:
        number = self.line(Compare(">=", size, 0))
        if after is not self.known:
            if after.least != self.known.least:
                self.step({"bound": number})
            return
        for fact in further:
            if not isinstance(fact, Compare) or not lines_of(condition_data(fact)):
                continue
            if fact.operator == "==":
                tree, facts = at_least(self, -size)
                here = ["cut", 1, 0, 1, len(facts), 0, 1, 1]
                self.lemma(fact, [{"both": [here, tree], "facts": [*facts, number]}])
            else:
                derive_without_floor(self, fact, size, number)

    def _choice(self, fact: Or, after: SolverState, further: Sequence[Condition]) -> None:
        """Derive which parts of an `or` are left where others are excluded."""
        if after.is_contradictory:
            left: tuple[Condition, ...] = ()
            goal: Condition = False
        elif further:
            left = tuple(further)
            (goal,) = left
        else:
            goal = after.choices[-1]
            left = goal.parts
        if goal == fact:
            return
        number = self.line(fact)
        _, alternatives = self.scope.lines[number]
        lines = lines_of(condition_data(goal))
        cases: list[list[Json]] = []
        for part, assumed in zip(fact.parts, alternatives, strict=True):
            inner = self.within(assumed)
            if part not in left:
                inner.exclude(part)
                proofs: list[Json] = [{"at": inner.number(FALSE)} for _ in lines]
            elif part == goal:
                proofs = [{"at": inner.number(line)} for line in lines]
            else:
                inside = [{"at": inner.number(line)} for line in assumed]
                proofs = [{"part": left.index(part), "proofs": inside}]
            cases.append([{"steps": inner.steps, "proofs": [proof]} for proof in proofs])
        proofs = [
            {"cases": number, "each": [case[place] for case in cases]}
            for place in range(len(lines))
        ]
        self.lemma(goal, proofs)

    def exclude(self, condition: Condition) -> None:
        """Derive that what is assumed is false, as its opposite follows."""
        match condition:
            case And(parts):
                for part in parts:
                    if follows(negate(part), self.known):
                        self.exclude(part)
                        return
            case Not(part) if not isinstance(part, Flag):
                self.exclude(negate(part))
            case bool():
                return
            case _ if lines_of(condition_data(condition)) != [FALSE]:
                opposite = negate(condition)
                self.lemma(opposite, followed(self, opposite))
                others = map(self.number, lines_of(condition_data(opposite)))
                self.step({"clash": [self.line(condition), *others]})
            case _:
                return


def _divisors(size: Size) -> Iterator[Dim]:
    """The divisors of the floors in a size, the inner ones first."""
    for floor in floors_of(size):
        for part in (floor.numerator, floor.denominator):
            yield from _divisors(part)
        if isinstance(floor.denominator, Dim):
            yield floor.denominator
