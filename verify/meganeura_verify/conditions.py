"""Conditions on sizes as certificates write them, and in normal form.

A line is a condition in normal form: `(">=", P)`, `("==", P)` or `("!=", P)` says how a polynomial
compares with 0; `("flag", name, value)`; `("or", alternatives)`, each a tuple of lines; or
`("false",)`.
"""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from meganeura_verify import CertificateError, require
from meganeura_verify.sizes import Poly, add, constant, names, negative, number_of, read_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Json = Any
Line = tuple[Any, ...]
FALSE: Line = ("false",)
COMPARISONS = ("==", "!=", ">=")
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ONE = constant(1)


def compared(sign: str, size: Poly) -> list[Line]:
    """The lines that say how a size compares with 0: none if that is plainly true."""
    number = number_of(size)
    if number is None:
        return [(sign, size)]
    return [] if {"==": number == 0, "!=": number != 0, ">=": number >= 0}[sign] else [FALSE]


def lines_of(condition: Json, value: bool = True) -> list[Line]:  # noqa: FBT001, FBT002
    """The lines of a condition, or of its opposite."""
    match condition:
        case bool():
            return [] if condition is value else [FALSE]
        case ["flag", str(name)]:
            return [("flag", name, value)]
        case ["not", part]:
            return lines_of(part, not value)
        case ["and" | "or" as kind, *parts]:
            each = [lines_of(part, value) for part in parts]
            if (kind == "and") is value:
                return list(chain.from_iterable(each))
            return [("or", tuple(map(tuple, each)))] if all(each) else []
        case [str(sign), left, right]:
            require(sign in OPPOSITE, f"there is no comparison {sign}")
            gap = add(read_size(left), read_size(right), -1)
            sign = sign if value else OPPOSITE[sign]
            if sign in ("<", "<="):
                gap = negative(gap)
            if sign in ("<", ">"):
                gap = add(gap, ONE, -1)
            return compared(sign if sign in ("==", "!=") else ">=", gap)
        case _:
            raise CertificateError(f"{condition} is no condition")


def opposite(lines: tuple[Line, ...]) -> list[Line]:
    """The lines that say that some lines are not all true."""
    if len(lines) != 1:
        return [("or", tuple(tuple(opposite((line,))) for line in lines))]
    match lines[0]:
        case (">=", size):
            return compared(">=", add(negative(size), ONE, -1))
        case ("==" | "!=" as sign, size):
            return compared(OPPOSITE[sign], size)
        case ("flag", name, value):
            return [("flag", name, not value)]
        case ("or", alternatives):
            return list(chain.from_iterable(map(opposite, alternatives)))
        case _:
            return []


def comparisons(lines: Iterable[Line]) -> Iterator[Poly]:
    """The sizes that lines compare with 0, those of alternatives included."""
    for line in lines:
        if line[0] in COMPARISONS:
            yield line[1]
        elif line[0] == "or":
            yield from comparisons(chain.from_iterable(line[1]))


def names_in(lines: Iterable[Line]) -> set[str]:
    """The names of sizes in lines."""
    return set[str]().union(*map(names, comparisons(lines)))


def is_same(first: Line, second: Line) -> bool:
    """Returns True if two lines state one condition; a size is 0 if its negative is."""
    if first[0] == second[0] and first[0] in ("==", "!="):
        return first[1] in (second[1], negative(second[1]))
    return first == second


def value_of(size: Json, at: Mapping[str, int]) -> int:
    """The number that a size is."""
    match size:
        case bool():
            raise CertificateError(f"{size} is no size")
        case int():
            return size
        case str():
            return at[size]
        case ["+", *parts]:
            return sum(value_of(part, at) for part in parts)
        case ["*", *parts]:
            return prod(value_of(part, at) for part in parts)
        case ["//", above, below]:
            return value_of(above, at) // value_of(below, at)
        case _:
            raise CertificateError(f"{size} is no size")


def holds(condition: Json, at: Mapping[str, int]) -> bool:
    """Returns True if a condition is true for some sizes and flags."""
    match condition:
        case bool():
            return condition
        case ["flag", name]:
            return bool(at[name])
        case ["not", part]:
            return not holds(part, at)
        case ["and", *parts]:
            return all(holds(part, at) for part in parts)
        case ["or", *parts]:
            return any(holds(part, at) for part in parts)
        case [("==" | "!=" | "<" | "<=" | ">" | ">=") as sign, left, right]:
            a, b = value_of(left, at), value_of(right, at)
            return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[
                sign
            ]
        case _:
            raise CertificateError(f"{condition} is no condition")
