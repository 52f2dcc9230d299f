"""A prover with a step that does not follow: what it proves wrongly has no certificate.

Each fault is planted in the prover, which then answers questions; a grid of sizes says which of its
proofs are wrong. The certificate is written with the same fault, and none of these is in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from meganeura_verify.shapes import check_shapes

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.symbolic import assumptions, polynomial
from meganeura_dsl.symbolic.assumptions import Facts, Proved, Recorder, Refuted
from meganeura_dsl.symbolic.certificates.shape_certificate import shape_certificate
from meganeura_dsl.symbolic.prover import (
    assume,
    counterexample,
    entailment,
    nonnegativity,
    residue_classes,
    solver_state,
)
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute
from tests.dsl.symbolic.questions import Question, condition_of, fault, question
from tests.dsl.symbolic.verdicts import FILE
from tests.effort import effort

Any_ = Callable[..., Any]
Found = Any
"""An argument or a result of a function of the prover."""
RARE = [51814, 51164]
"""Questions that two faults are found by, which few others are."""
SEEDS = [*RARE, *(int(line.partition(" ")[0]) for line in FILE.read_text().splitlines())]
ENOUGH = effort(1, 3)
"""Wrong proofs after which no more are looked for."""


def _easier(original: Any_) -> Any_:
    """Steps after which less has to be shown than would be needed."""

    def found(*arguments: Found) -> Iterator[Any]:
        for enough, step in original(*arguments):
            yield enough + 1, step

    return found


def _plain(size: Size) -> bool:
    terms = polynomial.terms_of(size)
    return all(value > 0 for monomial, value in terms.items() if monomial)


def _all_but_last(original: Any_) -> Any_:
    def classes(periods: Mapping[str, int]) -> Iterator[Any]:
        found = list(original(periods))
        yield from found[:-1] or found

    return classes


def _off_by_one(original: Any_) -> Any_:
    def solve(size: Dim, known: SolverState) -> Found:
        found = original(size, known)
        return None if found is None else found._replace(value=found.value + 1)

    return solve


def _larger(original: Any_) -> Any_:
    def changed(size: Size, *arguments: Found) -> Found:
        found = original(size, *arguments)
        return None if found is None else found + 1

    return changed


def _smaller(original: Any_) -> Any_:
    def changed(size: Size, known: SolverState) -> Found:
        found = original(size, known)
        return None if found is None else found - 1

    return changed


def _no_remainder(_original: Any_) -> Any_:
    def bounds(size: Dim) -> Iterator[Any]:
        for floor in polynomial.floors_of(size):
            share, rest = size.split(floor)
            if isinstance(share, int) and abs(share) == 1:
                left = floor.numerator + share * rest * floor.denominator
                yield assume.Compare("==", left, 0)

    return bounds


def _one_part(original: Any_) -> Any_:
    def choice(known: SolverState, parts: tuple[Any, ...]) -> Found:
        return original(known, parts[:1])

    return choice


def _any_part(_original: Any_) -> Any_:
    def by_cases(known: SolverState, condition: Found, splits: int) -> bool:
        if not known.choices:
            return False
        choice, *others = known.choices
        apart = replace(known, choices=tuple(others))
        entails = assume.entails
        return any(entails(assume.assume(apart, part), condition, splits) for part in choice.parts)

    return by_cases


def _true(_original: Any_) -> Any_:
    return lambda *_: True


def _raised_once_more(_original: Any_) -> Any_:
    def raised(self: SolverState, size: Dim) -> Size:
        names = {name: self.least_of(name) for name in size.variables()}
        change = {name: dim(name) + least + 1 for name, least in names.items()}
        return substitute(size, change)

    return raised


def _without_zero(_original: Any_) -> Any_:
    def reduce(known: SolverState, size: Size) -> Size:
        size = known.solved(size)
        for relation in known.zero:
            size = polynomial.divide(size, relation + 1)[1]
        return size

    return reduce


def _no_periods(original: Any_) -> Any_:
    return lambda size: dict.fromkeys(original(size), 1)


def _one_less(original: Any_) -> Any_:
    return lambda known, size: original(known, size - 1)


def _positive(_original: Any_) -> Any_:
    return lambda known, size: (known, [assume.Compare(">=", size, 1)])


def _as_it_is(_original: Any_) -> Any_:
    return lambda _self, floor, _depth: (floor.numerator, floor.denominator)


def _turned(_original: Any_) -> Found:
    def raised_facts(self: SolverState) -> tuple[Size, ...]:
        smooth = [size for size in self.zero if not polynomial.floors_of(size)]
        both = (*self.nonnegative, *(-size for size in self.nonnegative), *smooth)
        return tuple(map(self.raised, both))

    return property(raised_facts)


def _one_more(original: Any_) -> Any_:
    def reduced(condition: Found, known: SolverState) -> Found:
        sign, size = original(condition, known)
        return sign, size + 1 if sign == ">=" else size

    return reduced


FAULTS: dict[str, tuple[Any, str, Any_]] = {
    "a fact that gives one more": (nonnegativity, "_without_a_term", _easier),
    "negative constants are plainly >= 0": (
        nonnegativity, "is_plainly_nonnegative", lambda _: _plain
    ),
    "sizes are unequal in all classes but one": (entailment, "residue_classes", _all_but_last),
    "what is no zero anywhere is one": (entailment, "is_zero_everywhere", _true),
    "a class is unequal by its form": (entailment, "_is_nonzero_class", _true),
    "a value is one too large": (assume, "solve", _off_by_one),
    "a common factor leaves one more": (assume, "without_factors", _larger),
    "floors leave no remainder": (assume, "_bounds_of_floor", _no_remainder),
    "the first part of an or is taken": (assume, "_absorb_choice", _one_part),
    "one case of an or is enough": (assume, "_entails_by_cases", _any_part),
    "sizes begin one higher": (SolverState, "raised", _raised_once_more),
    "a value is substituted one too large": (solver_state, "substitute", _larger),
    "equalities may be dropped": (SolverState, "reduce", _without_zero),
    "a floor keeps its divisor": (residue_classes, "periods_of", _no_periods),
    "what is not negative is positive": (assume, "_absorb_nonnegative", _one_less),
    "what is not zero is positive": (assume, "_absorb_nonzero", _positive),
    "a divisor is positive": (nonnegativity._Proof, "_upright", _as_it_is),
    "facts are turned round": (SolverState, "raised_facts", _turned),
    "a claim less one": (entailment, "reduced", _one_more),
    "what is proved is also false": (entailment, "is_nonzero", _true),
    "an or follows of no part": (assume, "_entails_last", _true),
    "an example is not tried": (counterexample, "holds", _true),
    "a floor from below, one too high": (nonnegativity, "_floor_from_below", _easier),
    "a floor from above, one too low": (nonnegativity, "_floor_from_above", _easier),
    "the last residue class is left out": (nonnegativity, "residue_classes", _all_but_last),
    "an outer floor leaves one less": (assume, "without_outer_floor", _smaller),
}  # fmt: skip
HALF = ("//", "h", 2)
HIDDEN = {
    "a floor from below, one too high": Question({}, (), (">=", HALF, 1)),
    "a floor from above, one too low": Question({}, (), ("<=", ("//", ("+", "h", 3), 2), "h")),
    "the last residue class is left out": Question(
        {}, (), (">=", ("*", 2, ("//", ("+", "h", 1), 2)), ("+", "h", 1))
    ),
    "an outer floor leaves one less": Question(
        {}, ((">=", HALF, "w"),), (">=", "h", ("+", ("*", 2, "w"), 1))
    ),
}  # fmt: skip
"""Faults that are found only where no sizes are tried first, and what is proved wrongly then."""


@pytest.fixture
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Found:
    caches = nonnegativity._measured, polynomial._measured_floor
    for cache in caches:
        cache.cache_clear()
    holder, name, change = FAULTS[request.param]
    monkeypatch.setattr(holder, name, change(getattr(holder, name)))
    if request.param in HIDDEN:
        monkeypatch.setattr(nonnegativity._Proof, "_is_negative_somewhere", lambda *_: False)
        monkeypatch.setattr(assumptions, "_FEW_TRIALS", 0)
    yield [HIDDEN[request.param]] if request.param in HIDDEN else map(question, SEEDS)
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def _wrong(questions: Iterable[Question]) -> Iterator[Recorder]:
    """Yields the answers that were recorded of each question that is answered wrongly."""
    for asked in questions:
        recorder = Recorder()
        facts = Facts(recorder=recorder)
        for name, bound in asked.least.items():
            facts = facts.with_lower_bound(name, bound)
        for clause in asked.facts:
            facts = facts.assume(condition_of(clause))
        claim = condition_of(asked.claim)
        verdict = facts.decide(claim)
        if isinstance(verdict, Proved | Refuted) and fault(asked, verdict) is not None:
            kept = [each for each in recorder.answers if each.condition == claim]
            recorder.answers[:] = kept
            yield recorder


@pytest.mark.parametrize("planted", FAULTS, indirect=True)
def test_what_a_faulty_prover_proves_wrongly_is_not_certified(planted: Iterable[Question]) -> None:
    wrong = list(islice(_wrong(planted), ENOUGH))
    assert wrong, "the fault does not bite"
    for recorder in wrong:
        made = shape_certificate(recorder.answers, [("", Source("questions.mgn", ""))])
        assert made["questions"] == []
        assert len(made["uncertified"]) == len(recorder.answers) > 0
        check_shapes(made)
