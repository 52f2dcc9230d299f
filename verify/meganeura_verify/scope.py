"""Lines that are known of sizes, steps that derive others, and proofs of one more.

A scope has the lines that are known, and the least value of each name, 1 unless said otherwise.
Nothing is searched.

A condition is about the sizes where no divisor in it or in the facts is zero. So a proof may only
speak of floors whose divisors stand in known lines or are 1 at least.
"""

from __future__ import annotations

from itertools import chain
from math import gcd
from typing import Any

from meganeura_verify import CertificateError, require
from meganeura_verify.conditions import (
    COMPARISONS,
    FALSE,
    ONE,
    Line,
    compared,
    comparisons,
    is_same,
    lines_of,
    names_in,
    opposite,
)
from meganeura_verify.inequalities import classes, follow, is_apart, require_divisors
from meganeura_verify.sizes import (
    Poly,
    add,
    constant,
    divisors,
    floor,
    frozen,
    multiply,
    names,
    negative,
    read_size,
    substitute,
)

Json = Any
NEW = "quotient "
"""Prefix of the names that steps introduce; no name of a program has it."""


class Scope:
    """The lines that are known somewhere, and the least value of each name."""

    def __init__(self, around: Scope | None = None) -> None:
        self.lines: list[Line] = list(around.lines) if around else []
        self.least: dict[str, int] = dict(around.least) if around else {}

    def line(self, number: Json, *signs: str) -> Line:
        """A known line by its number; raises unless it is of one of the kinds."""
        require(type(number) is int and 0 <= number < len(self.lines), "there is no such line")
        line = self.lines[number]
        require(not signs or line[0] in signs, f"line {number} says something of another kind")
        return line

    def state(self, condition: Json) -> list[Line]:
        """The lines of a fact or claim of the program."""
        lines = lines_of(condition)
        reserved = any(name.startswith(NEW) for name in names_in(lines))
        require(not reserved, f"a name of the program begins with `{NEW}`")
        return lines

    def raised(self, size: Poly) -> Poly:
        """The size with each name counted from its least value."""
        least = {name: self.least.get(name, 1) for name in names(size)}
        change = {n: add(read_size(n), constant(low)) for n, low in least.items() if low}
        return substitute(size, change)

    def rewritten(self, line: Line, how: Json) -> list[Line]:
        """A comparison with names replaced by their values, less multiples of what is 0."""
        require(line[0] in COMPARISONS, "this is no comparison")
        sign, size = line
        values: dict[str, Poly] = {}
        for name, number in how.get("values", ()):
            equal = self.line(number, "==")[1]
            factor = equal.get(((0, name),), 0)
            rest = add(equal, read_size(name), -factor)
            require(abs(factor) == 1 and name not in names(rest), "it is no value of a name")
            values[name] = add({}, rest, -factor)
        size = substitute(size, values)
        for times, number in how.get("less", ()):
            size = add(size, multiply(self.given(times, size), self.line(number, "==")[1]), -1)
        return compared(sign, size)

    def given(self, data: Json, *around: Poly) -> Poly:
        """A size that a proof introduces, whose divisors must be known not to be 0."""
        size = read_size(data)
        self.require_defined(size, *around)
        return size

    def require_defined(self, size: Poly, *around: Poly) -> None:
        """Raise unless no divisor in a size can be 0."""
        if divisors(size):
            known = (line[1] for line in self.lines if line[0] in COMPARISONS)
            require_divisors(self.raised(size), map(self.raised, (*known, *around)))

    def step(self, step: Json) -> None:
        """Add the lines that a step derives; raises `CertificateError` unless they follow."""
        match step:
            case {"rewrite": number, **how}:
                self.lines += self.rewritten(self.line(number, *COMPARISONS), how)
            case {"lemma": condition, "proofs": proofs}:
                self._lemma(lines_of(condition), proofs)
            case {"bound": number}:
                size = self.line(number, ">=")[1]
                (name,), least = names(size), -size.get((), 0)
                require(size == add(read_size(name), constant(-least)), "this is no bound")
                self.least[name] = max(least, self.least.get(name, 1))
            case {"let": str(name), "is": data, "least": [number, int(least)]}:
                self._name(name, self.given(data), self.line(number, ">=")[1], least)
            case {"exact": number, "of": [data, int(divisor)], "is": quotient}:
                whole, size = self.given(data), self.given(quotient)
                require(divisor >= 1, "the divisor is not positive")
                gap = add(whole, size, -divisor)
                require_equal(self.line(number, "==")[1], gap)
                self.lines += compared("==", add(floor(whole, constant(divisor)), size, -1))
            case {"congruent": number, "name": str(name), "modulo": int(modulus), "rest": int(r)}:
                self._congruent(self.line(number, "==")[1], name, modulus, r)
            case {"divisor": data, "of": number}:
                size = read_size(data)
                known = divisors(self.line(number, *COMPARISONS)[1])
                require(frozen(size) in known, "it divides nothing there")
                self.lines += compared("!=", size)
            case {"clash": [first, *others]}:
                wanted = opposite((self.line(first),))
                require(len(wanted) == len(others), "there is no clash")
                same = map(is_same, map(self.line, others), wanted)
                require(all(same), "there is no clash")
                self.lines.append(FALSE)
            case _:
                raise CertificateError("there is no such step")

    def _lemma(self, lines: list[Line], proofs: Json) -> None:
        new = {name for name in names_in(lines) if name.startswith(NEW)}
        require(new <= self.least.keys(), "a lemma is about an unknown name")
        for size in comparisons(lines):
            self.require_defined(size)
        self.show_all(lines, proofs)
        self.lines += lines

    def _name(self, name: str, size: Poly, known: Poly, least: int) -> None:
        """Let a new name stand for a size of which it is known to be no less than a number."""
        is_new = name.startswith(NEW) and name not in self.least
        require(is_new and name not in names(size) and least >= 0, "this is no new name")
        require(known == add(size, constant(-least)), "the least value is not known")
        self.least[name] = least
        self.lines.append(("==", add(read_size(name), size, -1)))

    def _congruent(self, size: Poly, name: str, modulus: int, rest: int) -> None:
        """Add `name == modulus * floor(name/modulus) + rest`, which follows of `size == 0`."""
        factor = size.get(((0, name),), 0)
        others = add(size, read_size(name), -factor)
        require(modulus >= 2 and gcd(factor, modulus) == 1, "nothing follows of the name")
        require(all(value % modulus == 0 for m, value in others.items() if m), "there are others")
        require((factor * rest + others.get((), 0)) % modulus == 0, "the rest is another")
        require(0 <= rest < modulus, "the rest is too large")
        whole = multiply(constant(modulus), floor(read_size(name), constant(modulus)))
        self.lines += compared("==", add(add(read_size(name), whole, -1), constant(-rest)))

    def within(self, lines: list[Line], node: Json, goals: list[Line]) -> None:
        """Check a proof that assumes more lines."""
        inner = Scope(self)
        inner.lines += lines
        for step in node.get("steps", ()):
            inner.step(step)
        inner.show_all(goals, node["proofs"])

    def show_all(self, goals: list[Line], proofs: Json) -> None:
        """Check that each of some lines follows."""
        require(len(goals) == len(proofs), "there is not one proof for each line")
        for goal, proof in zip(goals, proofs, strict=True):
            self.show(goal, proof)

    def show(self, goal: Line, proof: Json) -> None:
        """Raise `CertificateError` unless a proof shows that a line follows."""
        match proof, goal:
            case {"at": number}, _:
                says = self.line(number) == FALSE or is_same(self.line(number), goal)
                require(says, f"line {number} says something else")
            case {"rewrite": how, "proofs": proofs}, _:
                self.show_all(self.rewritten(goal, how), proofs)
            case {"above": number, "tree": tree, **more}, (">=", size):
                require_equal(self.line(number, "!=")[1], add(size, ONE))
                self.nonnegative(add(size, ONE), tree, more)
            case {"tree": tree, **more}, (">=", size):
                self.nonnegative(size, tree, more)
            case {"both": [first, second], **more}, ("==", size):
                self.nonnegative(size, first, more)
                self.nonnegative(negative(size), second, more)
            case {"sign": int(sign), "tree": tree, **more}, ("!=", size):
                require(sign in (1, -1), "this is no sign")
                self.nonnegative(add(constant(-1), size, sign), tree, more)
            case {"factor": data, "of": number}, ("!=", size):
                known = self.line(number, "!=")[1]
                require_equal(known, multiply(self.given(data, size), size))
            case {"times": data, "of": number, "tree": tree, **more}, ("!=", size):
                factor = self.given(data, size)
                require_equal(multiply(factor, self.line(number, "!=")[1]), size)
                self.nonnegative(add(factor, ONE, -1), tree, more)
            case {"classes": periods}, ("==" | "!=" as sign, size):
                for values in classes(periods):
                    each = substitute(self.raised(size), values)
                    require(not each if sign == "==" else is_apart(each), "not in each class")
            case {"part": place, "proofs": proofs}, ("or", alternatives):
                self.show_all(list(alternatives[place]), proofs)
            case {"other": place, **node}, ("or", alternatives):
                others = [each for number, each in enumerate(alternatives) if number != place]
                lines = list(chain.from_iterable(map(opposite, others)))
                self.within(lines, node, list(alternatives[place]))
            case {"cases": number, "each": nodes}, _:
                alternatives = self.line(number, "or")[1]
                require(len(alternatives) == len(nodes), "a case is missing")
                for lines, node in zip(alternatives, nodes, strict=True):
                    self.within(list(lines), node, [goal])
            case _:
                raise CertificateError("this is no proof of such a line")

    def nonnegative(self, size: Poly, tree: Json, more: Json) -> None:
        """Check a tree that shows that a size is >= 0; `facts` are numbers of lines.

        `-1 - number` is an equality the other way round.
        """
        facts: list[Poly] = []
        for number in more.get("facts", ()):
            line = self.line(number, ">=", "==") if number >= 0 else self.line(-1 - number, "==")
            facts.append(self.raised(line[1] if number >= 0 else negative(line[1])))
        follow(self.raised(size), facts, tree)


def require_equal(first: Poly, second: Poly) -> None:
    """Raise unless two sizes are equal, or one is the negative of the other."""
    require(first in (second, negative(second)), "a size is another one")
