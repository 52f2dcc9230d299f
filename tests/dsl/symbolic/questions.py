"""Random questions to the prover, and what a grid of small sizes says of them.

A question is determined by its seed. The grid is computed with NumPy from the tree of the question,
so that no code of the prover judges the prover.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from meganeura_dsl.symbolic.assumptions import Facts, Proved, Refuted, Verdict
from meganeura_dsl.symbolic.conditions import And, Compare, Condition, Flag, Not, Or
from tests.dsl.symbolic.expressions import Tree, size_of

NAMES = "hws"
FLAGS = ("bias", "causal")
LARGEST = 11
"""The largest size of the grid."""
RELATIONS = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip

Clause = Any
"""(relation, tree, tree), ("flag", name), ("not", clause), or ("and" or "or", clause, clause)."""
Grid = Mapping[str, Any]
"""The values of each name and flag, one for each place."""


@dataclass(frozen=True)
class Question:
    """Facts, bounds of sizes that may be 0, and what is asked of them."""

    least: Mapping[str, int]
    facts: tuple[Clause, ...]
    claim: Clause

    def known(self) -> Facts:
        """The facts, as the prover takes them."""
        facts = Facts()
        for name, bound in self.least.items():
            facts = facts.with_lower_bound(name, bound)
        for clause in self.facts:
            facts = facts.assume(condition_of(clause))
        return facts

    def ask(self) -> Verdict:
        """The answer of the prover."""
        return self.known().decide(condition_of(self.claim))


def question(seed: int) -> Question:
    """The question of a seed."""
    random = Random(seed)
    least = {name: 0 for name in NAMES if random.random() < 0.2}
    facts = tuple(_fact(random) for _ in range(random.choice((0, 0, 1, 1, 2, 2, 3, 4))))
    return Question(least, facts, _clause(random, random.choice((0, 0, 0, 1)), 3))


def fault(question: Question, verdict: Verdict) -> str | None:
    """Returns the contradiction of a verdict and the grid, None if there is none."""
    if isinstance(verdict, Proved):
        grid = _grid(_places(question))
        wrong = _allowed(question.facts, grid) & ~_holds(question.claim, grid, grid)
        wrong &= _defined(question.claim, grid)
        if wrong.any():
            place = {name: int(values[wrong][0]) for name, values in grid.items()}
            return f"proved, and false at {place}"
    if isinstance(verdict, Refuted):
        example = {name: (int(value),) for name, value in verdict.example.items()}
        grid = _grid(_places(question) | example)
        facts = [fact for fact in question.facts if _names(fact) <= verdict.example.keys()]
        if any(example[name][0] < question.least.get(name, 1) for name in {*NAMES} & {*example}):
            return f"refuted by a size below its bound: {verdict.example}"
        if not all((_holds(fact, grid, grid) | ~_defined(fact, grid)).all() for fact in facts):
            return f"refuted by sizes that break a fact: {verdict.example}"
        claimed = _holds(question.claim, grid, grid)
        if (claimed & _defined(question.claim, grid)).all():
            return f"refuted where it is true: {verdict.example}"
    return None


def condition_of(clause: Clause) -> Condition:
    """The clause, as the prover takes it."""
    match clause:
        case ("flag", name):
            return Flag(name)
        case ("not", part):
            return Not(condition_of(part))
        case ("and", left, right):
            return And((condition_of(left), condition_of(right)))
        case ("or", left, right):
            return Or((condition_of(left), condition_of(right)))
        case (relation, left, right):
            return Compare(relation, size_of(left), size_of(right))
        case _:
            raise ValueError(clause)


# --- at random -----------------------------------------------------------------------------------


def tree(random: Random, depth: int) -> Tree:
    """A random tree of at most a depth."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(NAMES) if random.random() < 0.7 else random.randint(1, 6)
    operator = random.choice(("+", "+", "-", "-", "*", "//", "//", "%"))
    left = tree(random, depth - 1)
    if operator not in ("//", "%"):
        return operator, left, tree(random, depth - 1)
    divisors = [2, 3, 4, *NAMES, ("+", random.choice(NAMES), 1), ("-", random.choice(NAMES), 2)]
    return operator, left, random.choice(divisors)


def _relation(random: Random, depth: int) -> Clause:
    return random.choice(list(RELATIONS)), tree(random, depth), tree(random, depth)


def _clause(random: Random, parts: int, depth: int) -> Clause:
    if parts == 0:
        chosen = random.random()
        if chosen < 0.05:
            return "flag", random.choice(FLAGS)
        if chosen < 0.3:
            return _identity(random)
        return _relation(random, random.randint(1, depth))
    left, right = _clause(random, parts - 1, 2), _clause(random, parts - 1, 2)
    return random.choice((("and", left, right), ("or", left, right), ("not", left)))


def _fact(random: Random) -> Clause:
    match random.randrange(7):
        case 0:
            divisor = random.choice((2, 3, 4, *NAMES))
            return "==", ("%", tree(random, 1), divisor), random.choice((0, 0, 1))
        case 6:
            divisor = _difference(random)  # which may be negative
            operator = random.choice(("%", "//"))
            return (
                "==",
                (operator, tree(random, 1), divisor),
                random.choice((0, 0, 2, ("-", 0, 2))),
            )
        case 1:
            return "==", random.choice(NAMES), tree(random, 2)
        case 2:
            return "flag", random.choice(FLAGS)
        case 3:
            return _clause(random, 1, 1)
        case _:
            return _relation(random, random.randint(1, 2))


def _difference(random: Random) -> Tree:
    first, second = random.sample(NAMES, 2)
    return "-", random.choice((first, ("*", 2, first))), random.choice((second, 1, 4))


def _identity(random: Random) -> Clause:
    """A law of integers, at times off by a little, so that much is proved."""
    a, b, q = tree(random, 1), tree(random, 1), random.choice((2, 3, *NAMES))
    laws: list[Clause] = [
        ("==", ("+", ("*", q, ("//", a, q)), ("%", a, q)), a),
        ("<", ("%", a, q), q),
        (">=", ("%", a, q), 0),
        ("==", ("//", ("+", a, ("*", b, q)), q), ("+", ("//", a, q), b)),
        ("<=", ("*", q, ("//", a, q)), a),
        (">", ("*", q, ("+", ("//", a, q), 1)), a),
        ("==", ("*", a, ("+", b, q)), ("+", ("*", a, b), ("*", a, q))),
        ("<=", ("+", ("//", a, q), ("//", b, q)), ("//", ("+", a, b), q)),
        ("==", ("//", ("//", a, 2), q), ("//", a, ("*", 2, q))),
    ]
    relation, left, right = random.choice(laws)
    if random.random() < 0.4:
        right = ("+", right, random.choice((1, ("-", 0, 1), ("-", random.choice(NAMES), 1))))
    return relation, left, right


# --- on the grid ---------------------------------------------------------------------------------


def _places(question: Question) -> dict[str, Sequence[int]]:
    """The small values of every size and flag."""
    sizes = {name: range(question.least.get(name, 1), LARGEST + 1) for name in NAMES}
    return {**sizes, **dict.fromkeys(FLAGS, (0, 1))}


def _grid(places: Mapping[str, Sequence[int]]) -> Grid:
    axes = np.meshgrid(*(np.array(values, np.int64) for values in places.values()), indexing="ij")
    return {name: axis.ravel() for name, axis in zip(places, axes, strict=True)}


def _number(tree: Tree, grid: Grid) -> Any:  # noqa: ANN401 - a number or an array of them
    match tree:
        case ("//" | "%" as operator, left, right):
            divisor = _number(right, grid)
            safe = np.where(divisor == 0, 1, divisor)
            divide = np.floor_divide if operator == "//" else np.mod
            return divide(_number(left, grid), safe)
        case (operator, left, right):
            first, second = _number(left, grid), _number(right, grid)
            return {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](first, second)
        case str():
            return grid[tree]
        case _:
            return np.int64(tree)


def _holds(clause: Clause, grid: Grid, like: Grid) -> Any:  # noqa: ANN401 - an array
    match clause:
        case ("flag", name):
            return grid[name] == 1
        case ("not", part):
            return ~_holds(part, grid, like)
        case ("and", left, right):
            return _holds(left, grid, like) & _holds(right, grid, like)
        case ("or", left, right):
            return _holds(left, grid, like) | _holds(right, grid, like)
        case (relation, left, right):
            truth = RELATIONS[relation](_number(left, grid), _number(right, grid))
            return np.broadcast_to(truth, _any(like).shape)
        case _:
            raise ValueError(clause)


def _any(grid: Grid) -> Any:  # noqa: ANN401 - an array
    return next(iter(grid.values()), np.zeros(1, np.int64))


def _allowed(facts: Sequence[Clause], grid: Grid) -> Any:  # noqa: ANN401 - an array
    allowed = np.ones(_any(grid).shape, bool)
    for fact in facts:
        allowed &= _holds(fact, grid, grid) & _defined(fact, grid)
    return allowed


def _defined(clause: Clause, grid: Grid) -> Any:  # noqa: ANN401 - an array
    """Returns a bool for each point of the grid: true where no divisor is 0."""
    defined = np.ones(_any(grid).shape, bool)
    for divisor in _divisors(clause):
        defined &= np.broadcast_to(_number(divisor, grid) != 0, defined.shape)
    return defined


def _divisors(node: Any) -> Iterator[Tree]:  # noqa: ANN401 - a clause or a tree
    if isinstance(node, tuple):
        if node[0] in ("//", "%"):
            yield node[2]
        for part in node[1:]:
            yield from _divisors(part)


def _names(node: Any) -> set[str]:  # noqa: ANN401 - a clause or a tree
    if isinstance(node, tuple):
        return set().union(*map(_names, node[1:]))
    return {node} if isinstance(node, str) else set()
