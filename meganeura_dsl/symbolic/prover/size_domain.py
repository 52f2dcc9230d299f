"""The sizes that satisfy facts, one variable at a time, so that no draw is rejected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from meganeura_dsl.symbolic.conditions import Compare, Condition, flags_in, holds, sizes_in
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Size, dim, evaluate

FARTHEST = 4096
"""The end of the search for a value that satisfies the facts."""
FEW = 3
"""The number of values to find if they are not the smallest."""


@dataclass(frozen=True)
class _Test:
    """A condition, and the unknowns it waits for."""

    needs: frozenset[str]
    condition: Condition


@dataclass(frozen=True)
class _Tests:
    """Tests that the value of one unknown decides. Equal tests have equal answers."""

    conditions: tuple[Condition, ...]
    solved: tuple[tuple[str, Size], ...]
    """The sizes that the facts solve for and the tests read."""
    given: tuple[tuple[str, int], ...]
    """The values of the other unknowns that are read."""

    def accept(self, name: str, value: int) -> bool:
        """True if all conditions are true with this value; a division by zero is not."""
        unknowns = {**dict(self.given), name: value}
        try:
            solved = {each: evaluate(size, unknowns) for each, size in self.solved}
            values = {**unknowns, **solved}
            return all(holds(condition, values) for condition in self.conditions)
        except ZeroDivisionError:
            return False


class Domain:
    """The sizes and flags that satisfy facts, to be chosen one after the other.

    Sizes the facts solve for are computed from the others, so divisibilities and most equalities
    hold by construction: of `d % heads == 0` the unknowns are `heads` and the quotient. A flag is
    0 or 1.
    """

    def __init__(
        self,
        facts: Sequence[Condition],
        known: SolverState,
        least: Mapping[str, int],
        names: Iterable[str],
        flags: Iterable[str],
    ) -> None:
        stated = set[str]().union(*map(sizes_in, facts))
        self._names = tuple(dict.fromkeys((*names, *sorted(stated))))
        stated_flags = set[str]().union(*map(flags_in, facts))
        self._flags = tuple(dict.fromkeys((*flags, *sorted(stated_flags))))
        self._known_flags = known.flags
        self._solved = {name: known.values[name] for name in self._names if name in known.values}
        self._least = {name: known.least_of(name) for name in self._sizes()}
        self.unknowns: tuple[str, ...] = (*self._flags, *self._sizes())
        """The unknowns, in order. A quotient has the rank of the size it belongs to."""
        bounds = (Compare(">=", dim(name), least.get(name, 1)) for name in self._solved)
        self._tests = [self._test(condition) for condition in (*bounds, *facts)]
        self._choices: dict[tuple[str, int, _Tests], list[int]] = {}

    def choices(self, name: str, chosen: Mapping[str, int], most: int) -> list[int]:
        """The values an unknown can have after those chosen before it, in ascending order.

        Up to `most` where such values satisfy the facts, otherwise the nearest beyond. None if the
        values chosen before leave none.
        """
        tests = self._tests_with(name, chosen)
        key = name, most, tests
        if key not in self._choices:
            self._choices[key] = self._choose(name, tests, most)
        return self._choices[key].copy()

    def _choose(self, name: str, tests: "_Tests", most: int) -> list[int]:
        if name in self._flags:
            candidates = [self._known_flags[name]] if name in self._known_flags else [False, True]
            return [int(flag) for flag in candidates if tests.accept(name, flag)]
        least = self._least[name]
        top = max(most, least + FEW - 1)
        found = [value for value in range(least, top + 1) if tests.accept(name, value)]
        if found:
            return found
        beyond = (value for value in range(top + 1, FARTHEST) if tests.accept(name, value))
        return list(islice(beyond, FEW))

    def complete(self, chosen: Mapping[str, int]) -> dict[str, int]:
        """All sizes and flags, once every unknown is chosen."""
        return {
            name: evaluate(self._solved[name], chosen) if name in self._solved else chosen[name]
            for name in (*self._names, *self._flags)
        }

    def _sizes(self) -> tuple[str, ...]:
        unknowns = (
            name
            for size in self._names
            for name in (
                sorted(variables_of(self._solved[size])) if size in self._solved else [size]
            )
        )
        return tuple(dict.fromkeys(unknowns))

    def _test(self, condition: Condition) -> _Test:
        sizes = (self._solved.get(name, dim(name)) for name in sizes_in(condition))
        return _Test(flags_in(condition).union(*map(variables_of, sizes)), condition)

    def _tests_with(self, name: str, chosen: Mapping[str, int]) -> "_Tests":
        """All that becomes certain with an unknown, and of what is chosen, all that it reads."""
        known = {*chosen, name}
        conditions = tuple(
            test.condition
            for test in self._tests
            if (name in test.needs or not test.needs) and test.needs <= known
        )
        sizes = set[str]().union(*map(sizes_in, conditions))
        solved = tuple((each, self._solved[each]) for each in self._solved if each in sizes)
        read = sizes.union(*map(flags_in, conditions), *(variables_of(size) for _, size in solved))
        given = tuple((each, chosen[each]) for each in sorted(read & chosen.keys()))
        return _Tests(conditions, solved, given)
