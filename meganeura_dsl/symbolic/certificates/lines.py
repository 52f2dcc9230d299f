"""Lines of a certificate that follow from facts, and the steps that derive them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

from meganeura_verify.conditions import Line, lines_of
from meganeura_verify.scope import Scope
from meganeura_verify.sizes import frozen

from meganeura_dsl.symbolic.certificates.size_data import condition_data, size_data
from meganeura_dsl.symbolic.certificates.trees import UNEXPLAINED, Unexplained
from meganeura_dsl.symbolic.conditions import Compare, Condition, Or, negate
from meganeura_dsl.symbolic.polynomial import divide, variables_of
from meganeura_dsl.symbolic.prover.assume import assume
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim

Json = Any
Key = tuple[Any, ...]


class Lines(ABC):
    """Lines that follow from facts, the steps that derive them, and what the prover knows then."""

    def __init__(self, known: SolverState, around: Lines | None = None) -> None:
        self.known = known
        self.steps: list[Json] = []
        self.scope = Scope(None if around is None else around.scope)
        self._counted = 0
        if around is None:
            self.scope.least = dict(known.least)
        self._numbers: dict[Key, int] = {}
        self.add_lines(())

    # --- facts and steps -------------------------------------------------------------------------

    def with_fact(self, fact: Condition) -> Self:
        """The derivation with one more fact of the program."""
        inner = type(self)(self.known, self)
        inner.add_lines(inner.scope.state(condition_data(fact)))
        inner.learn(fact)
        return inner

    def within(self, lines: Iterable[Line], known: SolverState | None = None) -> Self:
        """The derivation where some lines are assumed."""
        inner = type(self)(self.known if known is None else known, self)
        inner.add_lines(lines)
        return inner

    def learn(self, fact: Condition) -> None:
        """Let the prover absorb a fact whose lines are there, and follow what it does."""
        self.known = assume(self.known, fact, self._watch)

    def _watch(
        self, known: SolverState, fact: Condition, after: SolverState, further: Sequence[Condition]
    ) -> None:
        self.known = known
        with suppress(*UNEXPLAINED):  # whoever needs a line that is missing says so
            self.explain(fact, after, further)

    @abstractmethod
    def explain(self, fact: Condition, after: SolverState, further: Sequence[Condition]) -> None:
        """Derive what the prover keeps where it absorbs a fact, and what it adds then."""

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Add lines that are given."""
        self.scope.lines += lines
        for number in range(self._counted, len(self.scope.lines)):
            self._numbers.setdefault(_key(self.scope.lines[number]), number)
        self._counted = len(self.scope.lines)

    def step(self, step: Json) -> int:
        """Add a step; the number of the line that it adds last."""
        try:
            self.scope.step(step)
        except UNEXPLAINED as error:
            raise Unexplained(str(error)) from error
        self.steps.append(step)
        self.add_lines(())
        return len(self.scope.lines) - 1

    def lemma(self, condition: Condition, proofs: list[Json]) -> int:
        """Show a condition; the number of its line, of its first if it has several."""
        if not self.says(condition):
            self.step({"lemma": condition_data(condition), "proofs": proofs})
        return self.number(lines_of(condition_data(condition))[0])

    def equal(self, target: Size, parts: Sequence[tuple[Size, Size]]) -> None:
        """Show that `target` is 0 as a sum of multiples of what is 0."""
        less = [self._multiple(times, size) for times, size in parts]
        if target != 0:
            proof: Json = {"rewrite": {"less": less}, "proofs": []}
            self.lemma(Compare("==", target, 0), [proof])

    # --- lines by what they say ------------------------------------------------------------------

    def says(self, condition: Condition) -> bool:
        """Returns True if a condition has lines, and all of them are known."""
        lines = lines_of(condition_data(condition))
        return bool(lines) and all(_key(line) in self._numbers for line in lines)

    def line(self, condition: Condition) -> int:
        """The number of the one line of a condition; raises `Unexplained` if it is not known."""
        lines = lines_of(condition_data(condition))
        if len(lines) != 1:
            raise Unexplained(f"{condition} is not one line")
        return self.number(lines[0])

    def number(self, line: Line) -> int:
        """The number of a line; raises `Unexplained`."""
        found = self._numbers.get(_key(line))
        if found is None:
            raise Unexplained(f"nothing says {line}")
        return found

    def zero(self, size: Size) -> int:
        """The number of the line that says that a size is 0, or its negative."""
        return self.line(Compare("==", size, 0))

    def signed(self, size: Size) -> int:
        """The same as a fact of a tree: `-1 - number` where the line has the other sign."""
        number = self.zero(size)
        return (
            number
            if [self.scope.lines[number]] == lines_of(["==", size_data(size), 0])
            else -1 - number
        )

    def how(self, size: Size) -> Json:
        """Returns the rewriting that `known.reduce` does to a size, as a step writes it."""
        known = self.known
        names = sorted(variables_of(size) & known.values.keys())
        values = [[name, self.zero(dim(name) - known.values[name])] for name in names]
        less: list[Json] = []
        size = known.solved(size)
        for relation in known.zero:
            share, size = divide(size, relation)
            if share != 0:
                less.append(self._multiple(share, relation))
        how = {"values": values, "less": less}
        return {key: each for key, each in how.items() if each}

    def _multiple(self, times: Size, size: Size) -> Json:
        """Returns a multiple of a size that is 0, by the number of its line."""
        number = self.signed(size)
        return [size_data(times if number >= 0 else -times), max(number, -1 - number)]

    def where_false(self, fact: Or, place: int) -> Self:
        """The derivation where all parts of an `or` but one are false."""
        inner = self.within(())
        for number, part in enumerate(fact.parts):
            if number != place:
                inner.add_lines(lines_of(condition_data(negate(part))))
        for number, part in enumerate(fact.parts):
            if number != place:
                inner.learn(negate(part))
        return inner

    def raised(self, size: Size) -> Size:
        """A size with names counted from their least values."""
        return self.known.raised(size) if isinstance(size, Dim) else size


def _key(line: Line) -> Key:
    """The same for lines that say the same."""
    match line:
        case ("==" | "!=" as sign, size):
            return (sign, max(frozen(size), frozen({m: -v for m, v in size.items()})))
        case (">=", size):
            return (">=", frozen(size))
        case ("or", alternatives):
            return ("or", *(tuple(map(_key, each)) for each in alternatives))
        case _:
            return line
