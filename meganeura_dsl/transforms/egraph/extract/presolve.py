"""Presolve: an extraction problem made smaller, with the same best choices.

Most classes have one node, and are needed whatever is chosen elsewhere: what is left without them
is condensed into its own problem. Of that, a class that every choice computes is paid anyway.
So it is a root, and who needs it does not pay for it. A node that needs no less than another of its
class, and costs no less, is never chosen. Either leaves more for the other to do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    always_needed,
)


@dataclass(frozen=True)
class ReducedProblem:
    """The part with a real choice: a problem, and the class and node that each of its own is.

    `given` are the nodes of the classes that are computed in any case, and in one way.
    """

    problem: ExtractionProblem
    component: Sequence[int]
    classes: Sequence[int]
    nodes: Sequence[int]
    given: Sequence[int]

    def choice(self, found: Sequence[int], of: ExtractionProblem) -> list[int]:
        """Returns a condensed problem's choice as one of the whole problem.

        -1 where it has none.
        """
        choice = [-1] * len(of.classes)
        for node in self.given:
            choice[of.owner[node]] = node
        for number, node in zip(self.classes, found, strict=True):
            if node >= 0:
                choice[number] = self.nodes[node]
        return choice


def condense(problem: ExtractionProblem, component: Sequence[int]) -> ReducedProblem:
    """The classes with several nodes, and what only some choices need."""
    sizes = Counter(component)
    forced = _reached(problem, problem.roots, alone=True)
    given = {
        number
        for number in forced
        if len(problem.classes[number]) == 1 and sizes[component[number]] == 1
    }
    live = _reached(problem, forced - given, alone=False)
    classes = sorted(live - given)
    position = {number: here for here, number in enumerate(classes)}
    nodes = [node for number in classes for node in problem.classes[number]]
    needs = [
        tuple([position[need] for need in problem.needs[node] if need in position])
        for node in nodes
    ]
    starts = iter(range(len(nodes)))
    smaller = ExtractionProblem(
        [[next(starts) for _ in problem.classes[number]] for number in classes],
        needs,
        [problem.costs[node] for node in nodes],
        tuple([position[number] for number in classes if number in forced]),
    )
    within = [component[number] for number in classes]
    return ReducedProblem(
        smaller, within, classes, nodes, [problem.classes[number][0] for number in given]
    )


def _reached(problem: ExtractionProblem, start: Iterable[int], *, alone: bool) -> set[int]:
    """Returns classes and those they need; `alone`, only through classes with one node."""
    seen = set(start)
    stack = list(seen)
    while stack:
        nodes = problem.classes[stack.pop()]
        if alone and len(nodes) > 1:
            continue
        for node in nodes:
            for need in problem.needs[node]:
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
    return seen


def reduced(problem: ExtractionProblem, component: Sequence[int]) -> ExtractionProblem:
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

    def __init__(self, problem: ExtractionProblem, component: Sequence[int]) -> None:
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
        """Returns the classes that every node of a class needs and that are not reached yet."""
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

    def problem(self) -> ExtractionProblem:
        """The remaining problem."""
        live = set(self._live())
        classes = [nodes if number in live else () for number, nodes in enumerate(self._classes)]
        return ExtractionProblem(classes, self._needs, self._costs, tuple(sorted(self.pinned)))
