"""The cheapest graph in an e-graph, each shared value paid once.

There are two starts: the least tree, which pays for shared work again and again, and the least if
users of a class split what it costs, as if all of them chose it. From each a search on the true
cost: a class takes another node (a single move), or a class is brought in, or driven out, and
every class above it chooses anew (a compound move), which is how two users come to share one
intermediate. A move stays only if it lowers the cost. References are counted, so that a move costs
what it touches. Exact extraction is NP-hard (Stepp, 2011).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    cheapest_trees,
    components,
)
from meganeura_dsl.transforms.egraph.extract.presolve import condense, reduced

# The bounds below end a search that could go on; a lower one costs quality, never correctness. With
# these the graphs of all standard models cost what an exact solver finds (docs/optimizer.md).
LEAST_GAIN = 1e-15
"""Seconds: a smaller difference is rounding, as costs are sums of times from 1e-9 on."""
ITERATIONS = 4
"""Most iterations over the contested classes; the search ends at the first without a gain."""
PASSES = 6
"""Most passes of single moves in an iteration; they end at the first without a move."""
REACH = 3
"""Levels of users that may change with a class: the user, what fuses it, and a user of that."""
CROWD = 200
"""Classes above one that are visited: a weight that a whole network reads would take them all."""
DEPTH = 200
"""Classes on one path of needs: far below Python's recursion limit of 1,000."""

_Prices = dict[int, tuple[float, int]]


def extract(problem: ExtractionProblem) -> list[int]:
    """A node for each class that is computed, and -1 for some of the others."""
    small = condense(problem, components(problem))
    smaller = reduced(small.problem, small.component)
    first = _Search(smaller, cheapest_trees(smaller), small.component)
    first.settle()
    second = _Search(smaller, cheapest_trees(smaller, split=True), small.component)
    second.settle(unless=first.total)
    return small.choice(min(first, second, key=lambda search: search.total).choice, problem)


@dataclass
class _Move:
    """A class's change of node, and what classes below it had chosen before."""

    owner: int
    before: int
    after: int
    below: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class _Search:
    """A choice, how often each class is needed under it, and its cost; for a reduced problem."""

    def __init__(
        self, problem: ExtractionProblem, choice: list[int], component: Sequence[int]
    ) -> None:
        self.problem = problem
        self.choice = choice
        self.references = [0] * len(problem.classes)
        self.total = sum(self._need(root) for root in problem.roots)
        self.component = component
        self.banned: set[int] = set()
        self.contested: dict[int, None] = {}
        self.pinned = set(problem.roots)
        for number in self.pinned:
            # One reference more than there are: no move may look below what stays anyway.
            self.references[number] += 1

    def settle(self, unless: float = inf) -> None:
        """Move until nothing gets cheaper, unless single moves lead to a cost that is known."""
        self._single_moves()
        if abs(self.total - unless) < LEAST_GAIN:
            return
        self.contested = self._contested()
        for _ in range(ITERATIONS):
            before = self.total
            for number in self.contested:
                if self.references[number]:
                    self._drive_out(number)
                else:
                    self._bring_in(number)
            self._single_moves()
            if self.total > before - LEAST_GAIN:
                return

    def _contested(self) -> dict[int, None]:
        """Classes that a class with a choice could share with another."""
        classes, users, owner = self.problem.classes, self.problem.users, self.problem.owner
        candidates = dict.fromkeys(
            need
            for nodes in classes
            if len(nodes) > 1
            for node in nodes
            for need in self.problem.needs[node]
        )
        return dict.fromkeys(
            number
            for number in candidates
            if len(users[number]) > 1
            and self.choice[number] >= 0
            and len({owner[user] for user in users[number]}) > 1
        )

    # --- references ------------------------------------------------------------------------------

    def _need(self, number: int) -> float:
        """Count one more use of a class; what that costs."""
        problem, references = self.problem, self.references
        added, stack = 0.0, [number]
        while stack:
            each = stack.pop()
            references[each] += 1
            if references[each] == 1:
                node = self.choice[each]
                added += problem.costs[node]
                stack += problem.needs[node]
        return added

    def _release(self, number: int) -> float:
        """Count one use less of a class; what that costs, which is not above 0."""
        problem, references = self.problem, self.references
        added, stack = 0.0, [number]
        while stack:
            each = stack.pop()
            references[each] -= 1
            if not references[each]:
                node = self.choice[each]
                added -= problem.costs[node]
                stack += problem.needs[node]
        return added

    def _price(self, number: int, known: _Prices, above: set[int], limit: float) -> float:
        """About what it costs to compute a class now, or infinity from `limit` on.

        `known` notes the price and the node of each class on the way; a node of -1 says that the
        price is no less.
        """
        if self.references[number]:
            return 0.0
        price, node = known.get(number, (0.0, -1))
        if node >= 0 or price >= limit:
            return price if price < limit else inf
        if number in above or number in self.banned or len(above) > DEPTH:
            return inf
        above.add(number)
        best, chosen = limit, -1
        for node in self.problem.classes[number]:
            price = self._price_of_node(node, known, above, best)
            if price < best:
                best, chosen = price, node
        above.discard(number)
        known[number] = (best, chosen)
        return inf if chosen < 0 else best

    def _price_of_node(self, node: int, known: _Prices, above: set[int], limit: float) -> float:
        price = self.problem.costs[node]
        for need in self.problem.needs[node]:
            if price >= limit:
                return inf
            price += self._price(need, known, above, limit - price)
        return price

    def _adopt(self, numbers: Iterable[int], known: _Prices) -> list[tuple[int, int]]:
        """Take the nodes a price was found for; what the classes had chosen before."""
        before: list[tuple[int, int]] = []
        seen: set[int] = set()
        stack = list(numbers)
        while stack:
            number = stack.pop()
            if number in seen or self.references[number]:
                continue
            seen.add(number)
            _, node = known.get(number, (0.0, -1))
            if node >= 0 and node != self.choice[number]:
                before.append((number, self.choice[number]))
                self.choice[number] = node
            stack += self.problem.needs[self.choice[number]]
        return before

    def _restore(self, before: Iterable[tuple[int, int]]) -> None:
        for number, node in before:
            self.choice[number] = node

    def _is_cyclic(self, node: int, owner: int) -> bool:
        """True if the node's needs lead back to its class."""
        component = self.component
        home = component[owner]
        seen: set[int] = set()
        stack = [need for need in self.problem.needs[node] if component[need] == home]
        while stack:
            number = stack.pop()
            if number == owner:
                return True
            if number not in seen:
                seen.add(number)
                below = self.problem.needs[self.choice[number]]
                stack += [need for need in below if component[need] == home]
        return False

    # --- moves -----------------------------------------------------------------------------------

    def _single_moves(self) -> None:
        problem = self.problem
        for _ in range(PASSES):
            open_classes = [
                number
                for number, nodes in enumerate(problem.classes)
                if len(nodes) > 1 and self.references[number]
            ]
            if not self._improved(open_classes):
                return

    def _improved(self, numbers: Iterable[int]) -> list[_Move]:
        """Let each class in use choose anew."""
        moves = (self._improve(number) for number in numbers if self.references[number])
        return [move for move in moves if move is not None]

    def _improve(self, number: int, among: set[int] | None = None) -> _Move | None:
        """Let a class in use choose anew; with `among`, it must take one of those."""
        problem, before = self.problem, self.choice[number]
        released = -problem.costs[before]
        for need in problem.needs[before]:
            released += self._release(need)
        limit = -released - LEAST_GAIN if among is None else inf
        refused = {before}
        while (found := self._best_node(number, limit, among, refused)) is not None:
            after, known = found
            move = _Move(number, before, after, self._adopt(problem.needs[after], known))
            self.choice[number] = after
            if not self._is_cyclic(after, number):
                self.total += released + problem.costs[after]
                self.total += sum(self._need(need) for need in problem.needs[after])
                return move
            self.choice[number] = before
            self._restore(move.below)
            refused.add(after)
        for need in problem.needs[before]:
            self._need(need)
        return None

    def _best_node(
        self, number: int, limit: float, among: set[int] | None, refused: set[int]
    ) -> tuple[int, _Prices] | None:
        best: tuple[int, _Prices] | None = None
        for node in self.problem.classes[number]:
            if node in refused or (among is not None and node not in among):
                continue
            known: _Prices = {}
            price = self._price_of_node(node, known, {number}, limit)
            if price < limit:
                limit, best = price, (node, known)
        return best

    def _undo(self, moves: list[_Move]) -> None:
        """Take moves back; the total is the caller's to set."""
        problem = self.problem
        for move in reversed(moves):
            for need in problem.needs[move.after]:
                self._release(need)
            self._restore(move.below)
            self.choice[move.owner] = move.before
            for need in problem.needs[move.before]:
                self._need(need)

    def _bring_in(self, number: int) -> None:
        """Compute a class and what it needs, and let all above them choose anew.

        What it needs may be worth it only if others share that too.
        """
        known: _Prices = {}
        if self._price(number, known, set(), inf) == inf:
            return
        above = self._above([each for each in known if each in self.contested])
        if sum(self.references[each] > 0 for each in above) < 2:
            return
        start = self.total
        before = self._adopt([number], known)
        self.total += self._need(number)
        moves = self._improved(reversed(above))
        if moves:
            moves += self._improved(above)
        self.total += self._release(number)
        if self.total < start - LEAST_GAIN:
            return
        self._need(number)
        self._undo(moves)
        self._release(number)
        self._restore(before)
        self.total = start

    def _drive_out(self, number: int) -> None:
        """Make every user of a class do without it."""
        if number in self.pinned:
            return
        problem, start = self.problem, self.total
        self.banned.add(number)
        moves: list[_Move] = []
        gone = all(
            self._turn_away(user, number, moves)
            for user in problem.users[number]
            if self.choice[problem.owner[user]] == user
        )
        self.banned.discard(number)
        if not gone or self.total > start - LEAST_GAIN:
            self._undo(moves)
            self.total = start

    def _turn_away(self, user: int, number: int, moves: list[_Move]) -> bool:
        owner = self.problem.owner[user]
        if not self.references[owner]:
            return True
        others = {
            node for node in self.problem.classes[owner] if number not in self.problem.needs[node]
        }
        move = self._improve(owner, others) if others else None
        if move is not None:
            moves.append(move)
        return move is not None

    def _above(self, numbers: list[int]) -> list[int]:
        """Classes with a choice, a few levels of users above some, the nearest first."""
        found: dict[int, None] = {}
        level = numbers
        for _ in range(REACH):
            users = (user for each in level for user in self.problem.users[each])
            owners = dict.fromkeys(self.problem.owner[user] for user in users)
            level = [owner for owner in owners if owner not in found]
            found.update(dict.fromkeys(level))
            if len(found) > CROWD:
                break
        return [each for each in found if len(self.problem.classes[each]) > 1]
