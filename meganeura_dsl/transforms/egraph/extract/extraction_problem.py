"""Choosing one node for each class: the problem, a first answer, and facts about its structure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Protocol


class Costs(Protocol):
    """The cost of each node, by its number."""

    def __getitem__(self, number: int, /) -> float: ...


@dataclass(frozen=True)
class ExtractionProblem:
    """The nodes of each class, the needs and costs of each node, and the wanted classes.

    A choice is good if it is acyclic from the roots; its cost counts each class once.
    """

    classes: Sequence[Sequence[int]]
    needs: Sequence[tuple[int, ...]]
    costs: Costs
    roots: tuple[int, ...]

    @cached_property
    def owner(self) -> list[int]:
        """The class of each node."""
        owner = [-1] * len(self.needs)
        for number, nodes in enumerate(self.classes):
            for node in nodes:
                owner[node] = number
        return owner

    @cached_property
    def users(self) -> list[list[int]]:
        """The nodes that need each class."""
        users: list[list[int]] = [[] for _ in self.classes]
        for nodes in self.classes:
            for node in nodes:
                for number in self.needs[node]:
                    users[number].append(node)
        return users

    def cost(self, choice: Sequence[int]) -> float:
        """The cost of all that the roots reach."""
        return sum(self.costs[choice[number]] for number in self.reached(choice))

    def reached(self, choice: Sequence[int]) -> list[int]:
        """The classes that a choice computes, each after all it needs."""
        order: list[int] = []
        state = [0] * len(self.classes)
        stack = [(root, False) for root in reversed(self.roots)]
        while stack:
            number, done = stack.pop()
            if done:
                state[number] = 2
                order.append(number)
            elif not state[number]:
                state[number] = 1
                stack.append((number, True))
                stack += [(need, False) for need in reversed(self.needs[choice[number]])]
        return order


def cheapest_trees(problem: ExtractionProblem, *, split: bool = False) -> list[int]:
    """The choice whose cost is least if nothing were shared; -1 where a class has no finite tree.

    With `split` a class costs each of its users a part of it, as if all of them chose to share it.
    Classes are settled from the cheapest up (Knuth, 1977), so that no choice can be cyclic.
    """
    owner, users = problem.owner, problem.users
    choice = [-1] * len(problem.classes)
    total = [0.0] * len(problem.classes)
    missing = [len(needs) for needs in problem.needs]
    heap: list[tuple[float, int]] = []
    for nodes in problem.classes:
        for node in nodes:
            if not missing[node]:
                heappush(heap, (problem.costs[node], node))
    while heap:
        cost, node = heappop(heap)
        number = owner[node]
        if choice[number] >= 0:
            continue
        parts = len({owner[user] for user in users[number]}) if split else 1
        choice[number], total[number] = node, cost / max(parts, 1)
        for user in users[number]:
            missing[user] -= 1
            if not missing[user] and choice[owner[user]] < 0:
                below = sum(total[need] for need in problem.needs[user])
                heappush(heap, (problem.costs[user] + below, user))
    return choice


def components(problem: ExtractionProblem) -> list[int]:
    """The strongly connected component of each class (Tarjan, 1972).

    A choice can only be cyclic within one. There is a class with a choice in every circle, as what
    can be computed in one way is computed from what was there before.
    """
    count = len(problem.classes)
    needs = [
        problem.needs[nodes[0]]
        if len(nodes) == 1
        else list(dict.fromkeys(need for node in nodes for need in problem.needs[node]))
        for nodes in problem.classes
    ]
    index, low, component = [-1] * count, [0] * count, [-1] * count
    open_classes: list[int] = []
    clock = found = 0
    for root, nodes in enumerate(problem.classes):
        work = [(root, 0)] if len(nodes) > 1 and index[root] < 0 else []
        while work:
            number, position = work.pop()
            if position == 0:
                index[number] = low[number] = clock
                clock += 1
                open_classes.append(number)
            else:
                low[number] = min(low[number], low[needs[number][position - 1]])
            while position < len(needs[number]):
                need = needs[number][position]
                position += 1
                if index[need] < 0:
                    work += [(number, position), (need, 0)]
                    break
                if component[need] < 0:
                    low[number] = min(low[number], index[need])
            else:
                if low[number] == index[number]:
                    while component[number] < 0:
                        component[open_classes.pop()] = found
                    found += 1
    alone = iter(range(found, found + count))
    return [next(alone) if of < 0 else of for of in component]


def always_needed(problem: ExtractionProblem) -> set[int]:
    """Classes that every choice computes: those on every way down from some root.

    needed(c) = {c} + the intersection, over c's nodes, of the union of what the node's needs need.
    """
    everything = (1 << len(problem.classes)) - 1
    needed = [everything] * len(problem.classes)
    order = _bottom_up(problem)
    changed = True
    while changed:
        changed = False
        for number in order:
            common = everything
            for node in problem.classes[number]:
                union = 0
                for need in problem.needs[node]:
                    union |= needed[need]
                common &= union
            common |= 1 << number
            changed |= common != needed[number]
            needed[number] = common
    total = 0
    for root in problem.roots:
        total |= needed[root]
    return {number for number in order if total >> number & 1}


def _bottom_up(problem: ExtractionProblem) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    stack = [(root, False) for root in problem.roots]
    while stack:
        number, done = stack.pop()
        if done:
            order.append(number)
        elif number not in seen:
            seen.add(number)
            stack.append((number, True))
            needs = (need for node in problem.classes[number] for need in problem.needs[node])
            stack += [(need, False) for need in needs if need not in seen]
    return order
