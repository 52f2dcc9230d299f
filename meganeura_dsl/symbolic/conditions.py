"""Conditions on sizes: what `where` states, what `if` asks and what a type rule requires."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Literal, assert_never

from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, Size, evaluate, show, substitute

Operator = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Compare:
    """`left operator right`, such as `d % heads == 0`."""

    operator: Operator
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"{show(self.left)} {self.operator} {show(self.right)}"


@dataclass(frozen=True)
class Flag:
    """A configuration value that is true or false."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    part: "Condition"

    def __str__(self) -> str:
        return f"not {_operand(self.part)}"


@dataclass(frozen=True)
class And:
    """All parts hold; true if there are none."""

    parts: tuple["Condition", ...]

    def __str__(self) -> str:
        return " and ".join(map(_operand, self.parts)) or "true"


@dataclass(frozen=True)
class Or:
    """Some part holds; false if there are none."""

    parts: tuple["Condition", ...]

    def __str__(self) -> str:
        return " or ".join(map(_operand, self.parts)) or "false"


Condition = Compare | Flag | Not | And | Or | bool

_TESTS: Mapping[Operator, Callable[[int, int], bool]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge
}  # fmt: skip
_OPPOSITES: Mapping[Operator, Operator] = {
    "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"
}  # fmt: skip


def show_condition(condition: Condition) -> str:
    """The condition in the syntax of `where` and `if`."""
    return str(condition).lower() if isinstance(condition, bool) else str(condition)


def negate(condition: Condition) -> Condition:
    """The opposite condition, without a `not` in front of anything but a flag."""
    match condition:
        case bool():
            return not condition
        case Compare(operator, left, right):
            return Compare(_OPPOSITES[operator], left, right)
        case Flag():
            return Not(condition)
        case Not(part):
            return part
        case And(parts):
            return Or(tuple(map(negate, parts)))
        case Or(parts):
            return And(tuple(map(negate, parts)))
        case _:
            assert_never(condition)


def holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """True if the condition is true for these values; ZeroDivisionError where a size has none."""
    match condition:
        case bool():
            return condition
        case Compare(operator, left, right):
            return _TESTS[operator](evaluate(left, values), evaluate(right, values))
        case Flag(name):
            return bool(values[name])
        case Not(part):
            return not holds(part, values)
        case And(parts):
            return all(holds(part, values) for part in parts)
        case Or(parts):
            return any(holds(part, values) for part in parts)
        case _:
            assert_never(condition)


def atoms_of(condition: Condition) -> Iterator[Compare | Flag]:
    """The comparisons and flags in a condition."""
    match condition:
        case bool():
            return
        case Compare() | Flag():
            yield condition
        case Not(part):
            yield from atoms_of(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from atoms_of(part)
        case _:
            assert_never(condition)


def flags_in(condition: Condition) -> frozenset[str]:
    """The names of the flags in a condition."""
    return frozenset(atom.name for atom in atoms_of(condition) if isinstance(atom, Flag))


def sizes_in(condition: Condition) -> frozenset[str]:
    """The names of the size variables in a condition."""
    names: set[str] = set()
    for atom in atoms_of(condition):
        if isinstance(atom, Compare):
            names |= variables_of(atom.left) | variables_of(atom.right)
    return frozenset(names)


def with_sizes(condition: Condition, sizes: Mapping[str, Size]) -> Condition:
    """The condition with variables replaced by other sizes, all at once."""
    match condition:
        case bool() | Flag():
            return condition
        case Compare(operator, left, right):
            return Compare(operator, substitute(left, sizes), substitute(right, sizes))
        case Not(part):
            return Not(with_sizes(part, sizes))
        case And(parts):
            return And(tuple(with_sizes(part, sizes) for part in parts))
        case Or(parts):
            return Or(tuple(with_sizes(part, sizes) for part in parts))
        case _:
            assert_never(condition)


def with_flags(condition: Condition, names: Mapping[str, str]) -> Condition:
    """The condition with other names for its flags."""
    match condition:
        case bool() | Compare():
            return condition
        case Flag(name):
            return Flag(names.get(name, name))
        case Not(part):
            return Not(with_flags(part, names))
        case And(parts):
            return And(tuple(with_flags(part, names) for part in parts))
        case Or(parts):
            return Or(tuple(with_flags(part, names) for part in parts))
        case _:
            assert_never(condition)


def with_differing(condition: Condition, names: frozenset[str]) -> Condition:
    """The condition where any two of some variables differ: what compares two is true or false."""
    match condition:
        case Compare("==" | "!=" as operator, Dim() as left, Dim() as right):
            apart = left != right and all(_is_one_of(side, names) for side in (left, right))
            return operator == "!=" if apart else condition
        case Not(part):
            return negate(with_differing(part, names))
        case And(parts):
            return _joined(And, [with_differing(part, names) for part in parts], neutral=True)
        case Or(parts):
            return _joined(Or, [with_differing(part, names) for part in parts], neutral=False)
        case _:
            return condition


def _is_one_of(size: Dim, names: frozenset[str]) -> bool:
    """True if a size is one of some variables, and nothing more."""
    ((monomial, coefficient), *others) = size.terms.items()
    return not others and coefficient == 1 and len(monomial) == 1 and monomial[0] in names


def _joined(form: type[And] | type[Or], parts: list[Condition], *, neutral: bool) -> Condition:
    """`and` or `or` of some parts, of which those that are known are left out."""
    left = [part for part in parts if part is not neutral]
    if any(isinstance(part, bool) for part in left):
        return not neutral
    return form(tuple(left)) if len(left) != 1 else left[0]


def _operand(part: Condition) -> str:
    text = show_condition(part)
    return f"({text})" if isinstance(part, And | Or) and len(part.parts) > 1 else text
