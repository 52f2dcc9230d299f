"""Proofs of a certificate for conditions that the prover has shown to follow.

The functions go the way of `prover.entailment` and of `entails`, asking them which branch it was.
Each returns one proof for each line of the condition, and raises `Unexplained` where a line that
is needed is not known.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, assert_never

from meganeura_verify.conditions import FALSE, Line, lines_of, opposite

from meganeura_dsl.symbolic.certificates.lines import Lines
from meganeura_dsl.symbolic.certificates.size_data import condition_data, size_data
from meganeura_dsl.symbolic.certificates.trees import Trees, Unexplained
from meganeura_dsl.symbolic.conditions import And, Compare, Condition, Flag, Not, Or, negate
from meganeura_dsl.symbolic.polynomial import divide, floors_of, leading_monomial
from meganeura_dsl.symbolic.prover.assume import assume, entails
from meganeura_dsl.symbolic.prover.entailment import (
    follows,
    is_at_least,
    is_nonzero,
    sign_of,
    without_factors,
)
from meganeura_dsl.symbolic.prover.nonnegativity import is_nonnegative
from meganeura_dsl.symbolic.prover.residue_classes import (
    is_zero_everywhere,
    periods_of,
    with_opaque_floors,
)
from meganeura_dsl.symbolic.size import Dim, Size

Json = Any


def entailed(at: Lines, condition: Condition, splits: int = 2) -> list[Json]:
    """Proofs of a condition that `entails` has shown."""
    known = at.known
    if follows(condition, known) or at.says(condition):
        return followed(at, condition)
    match condition:
        case And(parts):
            return [*chain.from_iterable(entailed(at, part, splits) for part in parts)]
        case Or(parts) if len(parts) > 1:
            for i in range(len(parts)):
                *others, last = parts[i:] + parts[:i]
                assumed = negate(Or(tuple(others)))
                if entails(assume(known, assumed), last, splits):
                    return [_with_opposites(at, parts, parts.index(last), assumed, splits)]
            raise Unexplained(f"{condition} does not follow from what others exclude")
        case Not(part) if not isinstance(part, Flag):
            return entailed(at, negate(part), splits)
        case _:
            return _by_cases(at, condition, splits - 1)


def followed(at: Lines, condition: Condition) -> list[Json]:
    """Proofs of a condition that `follows` has shown."""
    lines = lines_of(condition_data(condition))
    if at.says(condition):
        return [{"at": at.number(line)} for line in lines]
    if at.known.is_contradictory:
        return [{"at": at.number(FALSE)} for _ in lines]
    if not lines:
        return []
    match condition:
        case bool() | Flag() | Not(Flag()):
            raise Unexplained(f"nothing says {condition}")
        case Compare():
            return [_comparison(at, condition)]
        case Not(part):
            return followed(at, negate(part))
        case And(parts):
            return [*chain.from_iterable(followed(at, part) for part in parts)]
        case Or(parts):
            for place, part in enumerate(parts):
                if follows(part, at.known):
                    return [{"part": place, "proofs": followed(at, part)}]
            raise Unexplained(f"no part of {condition} follows")
        case _:
            assert_never(condition)


def at_least(at: Lines, *sizes: Size) -> list[Json]:
    """For each reduced size that was shown to be >= 0 a tree, and the facts of all of them."""
    known = at.known
    smooth = [size for size in known.zero if not floors_of(size)]
    trees = Trees(known.raised_facts)
    written = [trees.tree(known.raised(size) if isinstance(size, Dim) else size) for size in sizes]

    def fact(place: int) -> int:
        if place < len(known.nonnegative):
            return at.line(Compare(">=", known.nonnegative[place], 0))
        place -= len(known.nonnegative)
        number = at.signed(smooth[place % len(smooth)])
        return number if place < len(smooth) else -1 - number

    return [*written, [fact(place) for place in trees.used]]


def _with_opposites(
    at: Lines, parts: tuple[Condition, ...], place: int, assumed: Condition, splits: int
) -> Json:
    """The proof of a part of an `or` where all others are false."""
    ((_, alternatives),) = lines_of(condition_data(Or(parts)))
    others = [each for number, each in enumerate(alternatives) if number != place]
    assumptions = [*chain.from_iterable(map(opposite, others))]
    inner = at.within(assumptions)
    for part in (part for number, part in enumerate(parts) if number != place):
        if not inner.says(negate(part)):
            _regroup(inner, negate(part), [line for line in assumptions if line[0] == "or"])
    inner.learn(assumed)
    proofs = entailed(inner, parts[place], splits)
    return {"other": place, "steps": inner.steps, "proofs": proofs}


def _regroup(at: Lines, condition: Condition, either: list[Line]) -> None:
    """Derive an `or` in an `or`, or several, from lines that have the parts of both."""
    if isinstance(condition, And):
        for part in condition.parts:
            _regroup(at, part, either)
    if at.says(condition):
        return
    for line in either:
        with suppress(Unexplained):
            inner = [at.within(alternative) for alternative in line[1]]
            each = [{"proofs": _said(case, condition)} for case in inner]
            at.lemma(condition, [{"cases": at.number(line), "each": each}])
            return


def _said(at: Lines, condition: Condition) -> list[Json]:
    """Proofs of a condition of which enough parts are known lines."""
    if at.says(condition):
        return [{"at": at.number(line)} for line in lines_of(condition_data(condition))]
    match condition:
        case And(parts):
            return [*chain.from_iterable(_said(at, part) for part in parts)]
        case Or(parts):
            for place, part in enumerate(parts):
                with suppress(Unexplained):
                    return [{"part": place, "proofs": _said(at, part)}]
            raise Unexplained(f"nothing says {condition}")
        case _:
            raise Unexplained(f"nothing says {condition}")


def _by_cases(at: Lines, condition: Condition, splits: int) -> list[Json]:
    if splits < 0 or not at.known.choices:
        raise Unexplained(f"{condition} does not follow")
    choice = at.known.choices[0]
    number = at.line(choice)
    _, alternatives = at.scope.lines[number]
    lines = lines_of(condition_data(condition))
    cases: list[list[Json]] = []
    for part, assumed in zip(choice.parts, alternatives, strict=True):
        inner = at.within(assumed, replace(at.known, choices=at.known.choices[1:]))
        inner.learn(part)
        proofs = entailed(inner, condition, splits)
        cases.append([{"steps": inner.steps, "proofs": [proof]} for proof in proofs])
    return [
        {"cases": number, "each": [case[place] for case in cases]} for place in range(len(lines))
    ]


def _comparison(at: Lines, condition: Compare) -> Json:
    known = at.known
    sign, whole = sign_of(condition)
    size, plain = known.reduce(whole), known.solved(whole)
    how = at.how(whole)
    (line,) = lines_of(condition_data(condition))
    if isinstance(size, int) or not at.scope.rewritten(line, how):
        return {"rewrite": how, "proofs": []}
    shown = size
    match sign:
        case "==":
            proof = _zero(at, size)
        case "!=":
            if not is_nonzero(size, known):
                shown = plain
            proof = _nonzero(at, shown)
        case ">=":
            if not is_at_least(size, 0, known):
                shown = plain
            tree, facts = at_least(at, shown)
            proof = {"tree": tree, "facts": facts}
        case _:
            assert_never(sign)
    if shown is not size:
        how.pop("less", None)
    return {"rewrite": how, "proofs": [proof]} if how else proof


def _zero(at: Lines, size: Dim) -> Json:
    if is_zero_everywhere(size):
        return {"classes": _periods(with_opaque_floors(size), size)}
    up, down, facts = at_least(at, size, -size)
    return {"both": [up, down], "facts": facts}


def _nonzero(at: Lines, size: Size) -> Json:
    known = at.known
    assert isinstance(size, Dim)
    simple = without_factors(size, "!=", known)
    if simple != size and (simple in known.nonzero or -simple in known.nonzero):
        sign = 1 if simple.terms[leading_monomial(simple)] > 0 else -1
        share, _ = divide(sign * size, sign * simple)
        tree, facts = at_least(at, share - 1)
        number = at.line(Compare("!=", simple, 0))
        return {"times": size_data(share), "of": number, "tree": tree, "facts": facts}
    raised, facts = known.raised(size), known.raised_facts
    for sign in (1, -1):
        if is_nonnegative(sign * raised - 1, facts):
            tree, used = at_least(at, sign * size - 1)
            return {"sign": sign, "tree": tree, "facts": used}
    return {"classes": _periods(size, size)}


def _periods(size: Size, whole: Dim) -> Json:
    names = whole.variables()
    return {n: step for n, step in periods_of(size).items() if step > 1 and n in names}
