"""What is known of sizes, and what follows from it: yes, no with an example, or not known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as every
from math import lcm

from meganeura_dsl.shapes.conditions import (
    And,
    Compare,
    Condition,
    Flag,
    Not,
    Operator,
    Or,
    atoms_of,
    flags_of,
    holds,
    negate,
    show_condition,
    variables_of,
)
from meganeura_dsl.shapes.dim import Dim, Floor, Size, dim, divide, evaluate, show, substitute, terms_of

__all__ = [
    "And", "Compare", "Condition", "Facts", "Flag", "Not", "Operator", "Or", "Proved", "Refuted",
    "Unknown", "Unproved", "Verdict", "negate", "show_condition",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proved:
    """True for all sizes that satisfy the facts."""


@dataclass(frozen=True)
class Refuted:
    """False for some sizes that satisfy the facts, such as these."""

    example: dict[str, int]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither was found; `missing` is a fact that would decide it, if one is in sight."""

    missing: Condition | None = None


Verdict = Proved | Refuted | Unknown


class Unproved(Exception):
    """A condition on sizes that a rule requires and that could not be shown."""

    def __init__(self, condition: Condition, verdict: Verdict, reason: str) -> None:
        super().__init__(f"{reason}: cannot show {show_condition(condition)}")
        self.condition = condition
        self.verdict = verdict
        self.reason = reason


class Facts:
    """What is known of the sizes in scope. Immutable: each assumption gives new facts."""

    def __init__(self) -> None:
        self._bounds: dict[str, int] = {}
        self._conditions: tuple[Condition, ...] = ()
        self._replace: dict[str, Size] = {}
        self._false = False

    @property
    def is_contradictory(self) -> bool:
        """Whether the facts were seen to exclude each other; then everything follows."""
        return self._false

    def with_lower_bound(self, name: str, least: int) -> "Facts":
        """The facts where `name` is at least `least` instead of at least 1."""
        new = self._copy()
        new._bounds[name] = least
        return new

    def assume(self, condition: Condition) -> "Facts":
        """The facts with one more."""
        new = self._copy()
        if self._proves(negate(condition)):
            new._false = True
        new._conditions += (condition,)
        new._learn(condition)
        return new

    def normalize(self, size: Size) -> Size:
        """The size simplified by the facts."""
        return size

    def decide(self, condition: Condition) -> Verdict:
        """Whether a condition holds for all sizes that satisfy the facts."""
        if self._false or self._proves(condition):
            return Proved()
        example = self._search(negate(condition))
        return Unknown() if example is None else Refuted(example)

    def truth(self, condition: Condition) -> bool | None:
        """True if the condition always holds, False if it never does, None otherwise."""
        if self._proves(condition):
            return True
        return False if self._proves(negate(condition)) else None

    def suggest(self, condition: Condition) -> Condition | None:
        """The simplest further fact that would make a condition true."""
        return None

    def require(self, condition: Condition, reason: str) -> None:
        """Raise `Unproved` unless the condition is proved."""
        verdict = self.decide(condition)
        if not isinstance(verdict, Proved):
            raise Unproved(condition, verdict, reason)

    def require_equal(self, left: Size, right: Size, reason: str) -> None:
        """Raise `Unproved` unless two sizes are proved equal."""
        if left != right:
            self.require(Compare("==", left, right), reason)

    def require_same_shape(
        self, left: Sequence[Size], right: Sequence[Size], reason: str
    ) -> None:
        """Raise `Unproved` unless two shapes are proved equal, axis by axis."""
        self.require(len(left) == len(right), reason)
        for first, second in zip(left, right, strict=True):
            self.require_equal(first, second, reason)

    def solve_for(self, pattern: Size, name: str, value: Size) -> Size | None:
        """The one value of the new variable `name` that makes `pattern` equal to `value`."""
        factor = substitute(pattern, {name: 1}) - (offset := substitute(pattern, {name: 0}))
        if factor == 0:
            return None
        solution = (value - offset) // factor
        solved = Compare("==", substitute(pattern, {name: solution}), value)
        return solution if self._proves(solved) else None

    def _copy(self) -> "Facts":
        new = Facts()
        new._bounds, new._replace = dict(self._bounds), dict(self._replace)
        new._conditions, new._false = self._conditions, self._false
        return new

    def _learn(self, condition: Condition) -> None:
        match condition:
            case And(parts):
                for part in parts:
                    self._learn(part)
            case Compare("==", left, right):
                difference = self._reduce(left - right)
                for monomial, coefficient in terms_of(difference).items():
                    if isinstance(difference, Dim) and abs(coefficient) == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                        name = monomial[0]
                        value = dim(name) - coefficient * difference
                        if isinstance(value, int) or name not in value.variables():
                            self._eliminate(name, value)
                            return
                    for atom in monomial:
                        if isinstance(atom, Floor) and isinstance(atom.numerator, Dim) and len(atom.numerator.terms) == 1 and isinstance(right, int):
                            ((name,), one), = atom.numerator.terms.items() if all(len(m) == 1 for m in atom.numerator.terms) else ((("",), 0),)
                            if isinstance(name, str) and one == 1:
                                self._eliminate(name, atom.denominator * dim(f"${atom.text}") + right)
                                return
            case _:
                pass

    def _eliminate(self, name: str, value: Size) -> None:
        self._replace = {key: substitute(old, {name: value}) for key, old in self._replace.items()}
        self._replace[name] = value

    def _reduce(self, size: Size) -> Size:
        return substitute(size, self._replace)

    def _proves(self, condition: Condition) -> bool:
        match condition:
            case bool():
                return condition
            case And(parts):
                return all(map(self._proves, parts))
            case Or(parts):
                return any(map(self._proves, parts))
            case Compare("==", left, right):
                return self._is_zero(self._reduce(left - right))
            case Compare(">=", left, right):
                return self._is_nonnegative(self._reduce(left - right))
            case Compare("<=", left, right):
                return self._is_nonnegative(self._reduce(right - left))
            case Compare(">", left, right):
                return self._is_nonnegative(self._reduce(left - right - 1))
            case Compare("<", left, right):
                return self._is_nonnegative(self._reduce(right - left - 1))
            case Compare("!=", left, right):
                gap = self._reduce(left - right)
                return self._is_nonnegative(gap - 1) or self._is_nonnegative(-gap - 1) or condition in self._conditions
            case _:
                return condition in self._conditions

    def _is_zero(self, size: Size) -> bool:
        if isinstance(size, int):
            return size == 0
        if any(isinstance(p, Floor) and isinstance(p.denominator, Dim) for m in size.terms for p in m):
            return False
        moduli = lcm(*(a.denominator for m in size.terms for a in m if isinstance(a, Floor) and isinstance(a.denominator, int)))
        names = sorted(size.variables())
        degree = max(map(len, size.terms)) + 1
        if (moduli * degree) ** len(names) > 4096:
            return False
        return not any(evaluate(size, dict(zip(names, row, strict=True))) for row in every(range(moduli * degree), repeat=len(names)))

    def _is_nonnegative(self, size: Size) -> bool:
        if isinstance(size, Dim):
            size = substitute(size, {name: dim(name) + self._bounds.get(name, 1) for name in size.variables()})
        return all(value >= 0 for value in terms_of(size).values())

    def _search(self, goal: Condition) -> dict[str, int] | None:
        names = sorted(variables_of(goal).union(*map(variables_of, self._conditions)))
        flags = sorted(flags_of(goal).union(*map(flags_of, self._conditions)))
        side = max(2, min(64, int(20000 ** (1 / max(1, len(names))))))
        ranges = [range(self._bounds.get(name, 1), self._bounds.get(name, 1) + side) for name in names]
        rows = sorted(every(*ranges, *([False, True] for _ in flags)), key=sum)[:20000]
        for row in rows:
            values = dict(zip([*names, *flags], row, strict=True))
            try:
                if holds(goal, values) and all(holds(fact, values) for fact in self._conditions):
                    return values
            except ZeroDivisionError:
                continue
        return None
