"""Sizes, as small as possible, that satisfy all facts and make a condition true."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice, product
from operator import add, sub
from typing import NamedTuple

from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.conditions import Condition, flags_in, holds, sizes_in
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Size, evaluate

# The bounds below end a search for sizes to show; without an example there is no refutation.
_FARTHEST = 400
"""A size alone is found up to 400 above its least; of several, their sum is."""
_MARGIN = 6
"""The distance of the search above the solution of the facts."""
_MOST_SMALL = 5_000
"""Small candidates, in the order of their sum, so that the first that fits is the smallest."""
_MOST_LARGE = 2_500
"""Candidates of sizes of real models: all 15 of two variables, 13 of three, 7 of four."""
_MOST_FLAGS = 256
"""Combinations of flags, which are all of 8 of them."""
_LARGE = (2, 3, 4, 7, 8, 16, 32, 56, 64, 128, 224, 256, 512, 1000, 1024)
"""Sizes of real models, tried when no small ones will do."""


class Group(NamedTuple):
    """Facts connected by shared variables, directly or through other facts."""

    facts: tuple[Condition, ...]
    sizes: frozenset[str]
    flags: frozenset[str]

    def touches(self, other: "Group") -> bool:
        """True if the groups share a variable or a flag."""
        return not (self.sizes.isdisjoint(other.sizes) and self.flags.isdisjoint(other.flags))

    def joined(self, other: "Group") -> "Group":
        """Both groups as one."""
        return Group(self.facts + other.facts, self.sizes | other.sizes, self.flags | other.flags)


def group_of(condition: Condition) -> Group:
    """The variables and flags of a condition, without the condition."""
    return Group((), sizes_in(condition), flags_in(condition))


def gathered(start: Group, groups: Sequence[Group]) -> tuple[Group, list[Group]]:
    """`start` joined with all groups it touches, and the groups that are left."""
    left: list[Group] = []
    for group in groups:
        if group.touches(start):
            start = start.joined(group)
        else:
            left.append(group)
    return start, left


def grouped(facts: Sequence[Condition]) -> list[Group]:
    """The facts in groups that have nothing to do with each other."""
    groups: list[Group] = []
    for fact in facts:
        about = group_of(fact)
        group, groups = gathered(Group((fact,), about.sizes, about.flags), groups)
        groups.append(group)
    return groups


class Search:
    """The assignments to the variables of a group.

    Only variables that are not solved for are enumerated, so that most equalities and
    divisibilities hold by construction; all facts are checked all the same.
    """

    def __init__(self, group: Group, known: SolverState, least: Mapping[str, int]) -> None:
        self._group = group
        self._known = known
        self._least = least

    def smallest(self, goal: Condition, trials: int | None = None) -> dict[str, int] | None:
        """Returns the assignment with the smallest sum among the first that make the goal true.

        Apart from large sizes, assignments come by the sum of the enumerated variables, which is
        hardly ever more than the sum of all.
        """
        best: dict[str, int] | None = None
        least_sum = 0
        margin = _MARGIN if self._solved else 0
        for row in islice(self._rows(), trials):
            spend(1 + len(row))
            if best is not None and sum(row) >= least_sum + margin:
                break
            sizes = self._sizes(row)
            if sizes is None or (best is not None and sum(sizes.values()) >= least_sum):
                continue
            for flags in self._flags:
                if self._accepts(goal, values := sizes | flags):
                    best, least_sum = values, sum(sizes.values())
                    break
        return best

    @cached_property
    def _solved(self) -> dict[str, Size]:
        """The variables of the group that are solved for, and their values."""
        values = self._known.values
        return {name: values[name] for name in sorted(self._group.sizes) if name in values}

    @cached_property
    def _free(self) -> tuple[str, ...]:
        """The variables to enumerate."""
        needed = self._group.sizes - self._solved.keys()
        return tuple(sorted(needed.union(*map(variables_of, self._solved.values()))))

    @cached_property
    def _flags(self) -> list[dict[str, bool]]:
        """The values the flags can have, or the first of them."""
        known = self._known.flags
        choices = [[known[name]] if name in known else [False, True] for name in self._flag_names]
        chosen = islice(product(*choices), _MOST_FLAGS)
        return [dict(zip(self._flag_names, values, strict=True)) for values in chosen]

    @cached_property
    def _flag_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._group.flags))

    def _rows(self) -> Iterator[tuple[int, ...]]:
        """Values of the free variables: small ones by their sum, then large ones by theirs."""
        origin = [self._known.least_of(name) for name in self._free]
        if not origin:
            yield ()
            return
        small = (
            tuple(map(add, origin, offsets))
            for total in range(_FARTHEST)
            for offsets in _compositions(total, len(origin))
        )
        yield from islice(small, _MOST_SMALL)
        share = int(_MOST_LARGE ** (1 / len(origin)))
        yield from sorted(product(*(_spread((least, *_LARGE), share) for least in origin)), key=sum)

    def _sizes(self, row: tuple[int, ...]) -> dict[str, int] | None:
        """The values of all variables of the group, None if some would be below its bound."""
        free = dict(zip(self._free, row, strict=True))
        sizes = {name: free[name] for name in self._free if name in self._group.sizes}
        try:
            for name, value in self._solved.items():
                sizes[name] = evaluate(value, free)
                if sizes[name] < self._least.get(name, 1):
                    return None
        except ZeroDivisionError:
            return None
        return sizes

    def _accepts(self, goal: Condition, values: Mapping[str, int]) -> bool:
        spend(1)
        try:
            return holds(goal, values) and all(holds(fact, values) for fact in self._group.facts)
        except ZeroDivisionError:
            return False


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of numbers >= 0."""
    last = total + parts - 1
    for bars in combinations(range(last), parts - 1):
        yield tuple(map(sub, (*bars, last), (0, *(bar + 1 for bar in bars))))


def _spread(values: Sequence[int], most: int) -> Sequence[int]:
    """Returns up to `most` of some values, evenly spaced from the first on."""
    return values[:: -(-len(values) // max(1, most))]
