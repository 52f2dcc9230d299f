"""What need not be searched: an extraction problem made smaller, with the same best choices.

A class that every choice computes is paid anyway. So it is a root, and who needs it does not pay
for it. A node that needs no less than another of its class, and costs no less, is never chosen.
Either leaves more for the other to do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from meganeura_dsl.optimize.problem import Problem, always_needed


def reduced(problem: Problem, component: Sequence[int]) -> Problem:
    """The same classes and nodes, of which fewer are left, and fewer needs.

    Its roots are the classes that every choice computes. `component` is what `components` finds.
    """
    reduction = _Reduction(problem, component)
    reduction.pin(problem.roots)
    while True:
        smaller = reduction.problem()
        more = always_needed(smaller) - reduction.pinned
        if not more:
            return smaller
        reduction.pin(more)


class _Reduction:
    """Classes that are needed in any case, and the nodes that may be chosen beside them."""

    def __init__(self, problem: Problem, component: Sequence[int]) -> None:
        self._costs = problem.costs
        sizes = Counter(component)
        self._in_circle = {number for number, of in enumerate(component) if sizes[of] > 1}
        self._classes = [
            nodes
            if len(nodes) == 1
            else [node for node in nodes if number not in problem.needs[node]]
            for number, nodes in enumerate(problem.classes)
        ]
        self._needs = list(problem.needs)
        self.pinned: set[int] = set()

    def pin(self, numbers: Iterable[int]) -> None:
        """Note that classes are needed, and find what follows."""
        fresh = list(numbers)
        while fresh:
            self._pin_all(fresh)
            fresh = [need for number in self._simplified() for need in self._common(number)]

    def _pin_all(self, fresh: list[int]) -> None:
        while fresh:
            number = fresh.pop()
            if number not in self.pinned:
                self.pinned.add(number)
                fresh += self._common(number)

    def _common(self, number: int) -> set[int]:
        """What every node of a class needs, and nothing did yet."""
        first, *others = self._classes[number]
        return set(self._needs[first]).intersection(*(self._needs[each] for each in others)) - (
            self.pinned
        )

    def _simplified(self) -> list[int]:
        """The classes that are needed and have lost a node, as needs that are paid anyway went."""
        given = self.pinned - self._in_circle
        changed: list[int] = []
        for number in self._live():
            nodes = self._classes[number]
            for node in nodes:
                needs = self._needs[node]
                if needs and not given.isdisjoint(needs):
                    self._needs[node] = tuple([need for need in needs if need not in given])
            if len(nodes) > 1:
                kept = self._undominated(nodes)
                if len(kept) < len(nodes):
                    self._classes[number] = kept
                    changed.append(number)
        return [number for number in changed if number in self.pinned]

    def _live(self) -> list[int]:
        """The classes that may be needed."""
        seen = set(self.pinned)
        stack = list(seen)
        while stack:
            for node in self._classes[stack.pop()]:
                for need in self._needs[node]:
                    if need not in seen:
                        seen.add(need)
                        stack.append(need)
        return sorted(seen)

    def _undominated(self, nodes: Sequence[int]) -> Sequence[int]:
        """The nodes but for those that another is no worse than."""
        kept: list[int] = []
        costs, needs = self._costs, self._needs
        for node in sorted(nodes, key=lambda each: (costs[each], len(needs[each]), each)):
            needed = set(needs[node])
            if not any(needed.issuperset(needs[other]) for other in kept):
                kept.append(node)
        return kept

    def problem(self) -> Problem:
        """What is left."""
        live = set(self._live())
        classes = [nodes if number in live else () for number, nodes in enumerate(self._classes)]
        return Problem(classes, self._needs, self._costs, tuple(sorted(self.pinned)))
