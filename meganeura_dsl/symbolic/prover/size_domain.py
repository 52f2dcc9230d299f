"""The sizes that satisfy facts, one variable at a time, so that no draw is rejected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from meganeura_dsl.symbolic.conditions import Compare, Condition, flags_in, holds, sizes_in
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Size, dim, evaluate

FARTHEST = 4096
"""Where the search for a value ends that satisfies the facts."""
FEW = 3
"""How many values to find where they are not the smallest."""


@dataclass(frozen=True)
class _Test:
    """A condition, and the unknowns it waits for."""

    needs: frozenset[str]
    condition: Condition


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
        bounds = (Compare(">=", dim(name), known.least_of(name)) for name in self._solved)
        self._tests = [self._test(condition) for condition in (*bounds, *facts)]

    def choices(self, name: str, chosen: Mapping[str, int], most: int) -> list[int]:
        """The values an unknown can have after those chosen before it, in ascending order.

        Up to `most` where such values satisfy the facts, otherwise the nearest beyond. None if the
        values chosen before leave none.
        """
        if name in self._flags:
            candidates = [self._known_flags[name]] if name in self._known_flags else [False, True]
            return [int(flag) for flag in candidates if self._accepts(name, chosen, flag)]
        least = self._least[name]
        top = max(most, least + FEW - 1)
        found = [v for v in range(least, top + 1) if self._accepts(name, chosen, v)]
        if found:
            return found
        beyond = (v for v in range(top + 1, FARTHEST) if self._accepts(name, chosen, v))
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

    def _accepts(self, name: str, chosen: Mapping[str, int], value: int) -> bool:
        """Whether all that becomes certain with this value is true."""
        values = {**chosen, name: value}
        return all(
            self._holds(test.condition, values)
            for test in self._tests
            if (name in test.needs or not test.needs) and test.needs <= values.keys()
        )

    def _holds(self, condition: Condition, values: Mapping[str, int]) -> bool:
        try:
            solved = {name: evaluate(self._solved[name], values) for name in self._ready(values)}
            return holds(condition, {**values, **solved})
        except ZeroDivisionError:
            return False

    def _ready(self, values: Mapping[str, int]) -> list[str]:
        return [name for name, size in self._solved.items() if _is_known(size, values)]


def _is_known(size: Size, values: Mapping[str, int]) -> bool:
    return variables_of(size) <= values.keys()
