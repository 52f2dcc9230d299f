"""Facts about sizes, and queries: proved, refuted by an example, or unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from meganeura_dsl.limits.language_limits import QUESTION
from meganeura_dsl.limits.work_budget import OutOfWorkError, at_most, spend
from meganeura_dsl.symbolic.certificates.recorder import Recorder
from meganeura_dsl.symbolic.conditions import (
    And,
    Compare,
    Condition,
    Flag,
    Not,
    Operator,
    Or,
    negate,
    show_condition,
    sizes_in,
)
from meganeura_dsl.symbolic.prover.assume import assume, entails
from meganeura_dsl.symbolic.prover.counterexample import Group, Search, gathered, group_of, grouped
from meganeura_dsl.symbolic.prover.entailment import is_plain
from meganeura_dsl.symbolic.prover.missing_facts import suggestions
from meganeura_dsl.symbolic.prover.size_domain import Domain
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim, evaluate, substitute

__all__ = [
    "And", "Compare", "Condition", "Facts", "Flag", "Not", "Operator", "Or", "Proved", "Recorder",
    "Refuted", "Unknown", "Unproved", "Verdict", "negate", "show_condition",
]  # fmt: skip

_FEW_TRIALS = 8
"""Sizes that may refute a condition before its proof is tried, which takes longer."""
_SOME_TRIALS = 2_000
"""Sizes among which a suggested fact must have an example: one that none satisfies is no cure."""
_FEW_FACTS = 64
"""Facts and bounds that new ones copy for nothing."""
_COPIED = 4
"""Steps of each further one: the copies are kept, and memory grows with the square of a header."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Proved:
    """True for all sizes that satisfy the facts."""


@dataclass(frozen=True)
class Refuted:
    """False for some sizes that satisfy the facts, such as these; flags are True or False."""

    example: dict[str, int]


@dataclass(frozen=True)
class Unknown:
    """Neither proved nor refuted; `missing` is a fact that would prove it, if one was found."""

    missing: Condition | None = None


Verdict = Proved | Refuted | Unknown


def _spend_on_copies(count: int) -> None:
    """Take the steps of copying so many facts; raises `OutOfWorkError`."""
    if count > _FEW_FACTS:
        spend(_COPIED * count)


class Unproved(Exception):
    """A condition on sizes that a rule requires and that could not be shown."""

    def __init__(self, condition: Condition, verdict: Verdict, reason: str) -> None:
        super().__init__(f"{reason}: cannot show {show_condition(condition)}")
        self.condition = condition
        self.verdict = verdict
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about the sizes in scope. Variables are >= 1 unless stated otherwise.

    Immutable: each assumption gives new facts, so that a branch can have its own.
    """

    stated: tuple[Condition, ...] = ()
    """The facts as they were stated, in order."""
    least: Mapping[str, int] = field(default_factory=dict[str, int])
    """The lower bounds that are not 1."""
    recorder: Recorder | None = field(default=None, repr=False)
    """Notes what was proved and refuted, for a certificate."""
    _known: SolverState = field(default=SolverState(), repr=False)
    _verdicts: dict[Condition, Verdict] = field(
        init=False, repr=False, default_factory=dict[Condition, "Verdict"]
    )
    _proved: dict[Condition, bool] = field(
        init=False, repr=False, default_factory=dict[Condition, bool]
    )
    _least_values: dict[Dim, int] = field(init=False, repr=False, default_factory=dict[Dim, int])
    _further: "dict[Condition, Facts]" = field(
        init=False, repr=False, default_factory=dict[Condition, "Facts"]
    )
    _bounded: "dict[tuple[str, int], Facts]" = field(
        init=False, repr=False, default_factory=dict[tuple[str, int], "Facts"]
    )
    _satisfied: dict[Group, bool] = field(init=False, repr=False, default_factory=dict[Group, bool])
    _domains: dict[tuple[tuple[str, ...], tuple[str, ...]], Domain] = field(
        init=False,
        repr=False,
        default_factory=dict[tuple[tuple[str, ...], tuple[str, ...]], Domain],
    )

    @cached_property
    def _sizes(self) -> frozenset[str]:
        """The sizes that the facts speak of."""
        return frozenset[str]().union(*map(sizes_in, self.stated))

    @property
    def is_contradictory(self) -> bool:
        """True if the facts were seen to exclude each other; everything follows from such facts."""
        return self._known.is_contradictory

    def with_lower_bound(self, name: str, least: int) -> "Facts":
        """The facts where the variable `name` is at least `least`, 0 or more, instead of 1."""
        if least < 0:
            raise ValueError(f"a size is never negative: {name} >= {least}")
        if (name, least) not in self._bounded:
            _spend_on_copies(len(self.least) + len(self.stated))
            self._bounded[name, least] = self._with_lower_bound(name, least)
        return self._bounded[name, least]

    def _with_lower_bound(self, name: str, least: int) -> "Facts":
        bounds = {**self.least, name: least}
        if name not in self._sizes:  # so nothing was learned of it
            known = replace(self._known, least={**self._known.least, name: least})
            return Facts(self.stated, bounds, self.recorder, known)
        known = SolverState(least=bounds)
        for condition in self.stated:
            known = assume(known, condition)
        return Facts(self.stated, bounds, self.recorder, known)

    def assume(self, condition: Condition) -> "Facts":
        """The facts with one more; the same object for the same one, so that it is learned once."""
        further = self._further.get(condition)
        if further is None:
            _spend_on_copies(len(self.stated))
            further = self._further[condition] = replace(
                self, stated=(*self.stated, condition), _known=assume(self._known, condition)
            )
        return further

    def normalize(self, size: Size) -> Size:
        """The size in a form that is the same for sizes these facts make plainly equal.

        ZeroDivisionError if the facts make a divisor 0.
        """
        normal = self._known.restore(self._known.reduce(size))
        if self.recorder is not None and normal != size:
            self._note(Compare("==", size, normal))
        return normal

    def least_value(self, size: Size) -> int:
        """The value of the size where each variable has its smallest allowed value."""
        if isinstance(size, int):
            return size
        if size not in self._least_values:
            self._least_values[size] = self._least_value(size)
        return self._least_values[size]

    def _least_value(self, size: Dim) -> int:
        try:
            return evaluate(size, {name: self._least_of(name) for name in size.variables()})
        except ZeroDivisionError:
            return 1

    def _least_of(self, name: str) -> int:
        return self._known.least_of(name)

    def decide(self, condition: Condition) -> Verdict:
        """Decides if a condition holds for all sizes that satisfy the facts."""
        verdict = self._verdicts.get(condition)
        if verdict is None:
            verdict = self._verdicts[condition] = self._judge(condition)
        return verdict

    def proves(self, condition: Condition) -> bool:
        """True if a condition was shown to hold for all such sizes; `decide` says why not."""
        proved = self._proved.get(condition)
        if proved is None:
            proved = self._proved[condition] = self._follows(condition)
        return proved

    def truth(self, condition: Condition) -> bool | None:
        """True if the condition always holds, False if it never does, None if neither is shown."""
        if isinstance(condition, bool):
            return condition
        if self.proves(condition):
            return True
        return False if self.proves(negate(condition)) else None

    def example(self, condition: Condition, trials: int | None = None) -> dict[str, int] | None:
        """The smallest sizes found that satisfy the facts and a condition; flags are bools."""
        return _ended(lambda: self._example(condition, trials))

    def domain(self, names: Iterable[str], flags: Iterable[str] = ()) -> Domain:
        """The sizes and flags that satisfy the facts, those named first, to be chosen in order."""
        key = tuple(names), tuple(flags)
        if key not in self._domains:
            self._domains[key] = Domain(self.stated, self._known, self.least, *key)
        return self._domains[key]

    def suggest(self, condition: Condition) -> Condition | None:
        """The simplest consistent fact found that makes a condition true."""
        return _ended(lambda: self._suggestion(condition))

    def require(self, condition: Condition, reason: str) -> None:
        """Raise `Unproved` unless the condition is proved."""
        verdict = self.decide(condition)
        if not isinstance(verdict, Proved):
            raise Unproved(condition, verdict, reason)

    def require_equal(self, left: Size, right: Size, reason: str) -> None:
        """Raise `Unproved` unless two sizes are proved equal."""
        if left != right:
            self.require(Compare("==", left, right), reason)

    def require_same_shape(self, left: Sequence[Size], right: Sequence[Size], reason: str) -> None:
        """Raise `Unproved` unless two shapes are proved equal, axis by axis."""
        if left == right:
            return
        self.require(len(left) == len(right), reason)
        for first, second in zip(left, right, strict=True):
            self.require_equal(first, second, reason)

    def solve_for(self, pattern: Size, name: str, value: Size) -> Size | None:
        """The one value of the new variable `name` that makes `pattern` equal to `value`.

        None if there may be none, or several. The value can be 0 or less: `k + 1 == h`.
        """
        return _ended(lambda: self._solution(pattern, name, value))

    def _solution(self, pattern: Size, name: str, value: Size) -> Size | None:
        try:
            offset = substitute(pattern, {name: 0})
            factor = substitute(pattern, {name: 1}) - offset
        except ZeroDivisionError:  # the variable divides something
            return None
        is_linear = pattern == factor * dim(name) + offset
        if not is_linear or not self._entails(Compare("!=", factor, 0)):
            return None
        solution = (value - offset) // factor
        solved = Compare("==", factor * solution + offset, value)
        return solution if self._entails(solved) else None

    def _entails(self, condition: Condition) -> bool:
        is_shown = entails(self._known, condition)
        if is_shown:
            self._note(condition)
        return is_shown

    def _note(self, condition: Condition, example: Mapping[str, int] | None = None) -> None:
        if self.recorder is not None:
            self.recorder.note(self.least, self.stated, condition, example)

    def _judge(self, condition: Condition) -> Verdict:
        if self.proves(condition):
            return Proved()
        example = self.example(negate(condition))
        if example is not None:
            self._note(condition, example)
            return Refuted(example)
        return Unknown(self.suggest(condition))

    def _follows(self, condition: Condition) -> bool:
        is_shown = bool(_ended(lambda: self._is_shown(condition)))
        if is_shown:
            self._note(condition)
        return is_shown

    def _is_shown(self, condition: Condition) -> bool:
        """Stated, shown by its form, or if a few small sizes say nothing against it, by a proof."""
        if condition in self._said or is_plain(condition, self._known):
            return True
        few = self.example(negate(condition), _FEW_TRIALS)
        return few is None and entails(self._known, condition)

    def _example(self, condition: Condition, trials: int | None) -> dict[str, int] | None:
        group, others = gathered(group_of(condition), self._groups)
        if not all(map(self._is_satisfied_somewhere, others)):
            return None
        return Search(group, self._known, self.least).smallest(condition, trials)

    def _suggestion(self, condition: Condition) -> Condition | None:
        asked = self if self.recorder is None else replace(self, recorder=None)
        for fact in suggestions(condition, self._known):
            further = asked.assume(fact)
            if further.truth(condition) and further.example(condition, _SOME_TRIALS) is not None:
                return fact
        return None

    @cached_property
    def _said(self) -> frozenset[Condition]:
        """The stated conditions, also those that took too many steps to be learned."""
        parts = (each.parts if isinstance(each, And) else (each,) for each in self.stated)
        return frozenset(part for each in parts for part in each)

    @cached_property
    def _groups(self) -> list[Group]:
        return grouped(self.stated)

    def _is_satisfied_somewhere(self, group: Group) -> bool:
        if group not in self._satisfied:
            search = Search(group, self._known, self.least)
            self._satisfied[group] = search.smallest(goal=True) is not None
        return self._satisfied[group]


def _ended(question: Callable[[], _Answer | None]) -> _Answer | None:
    """The answer to a question, None where it would take too many steps to find."""
    try:
        with at_most(QUESTION):
            return question()
    except OutOfWorkError:
        spend(0)
        return None
