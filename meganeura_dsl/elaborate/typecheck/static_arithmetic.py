"""Arithmetic on what is known before any data is: sizes, numbers, lists and conditions."""

import math
import operator as operators
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from meganeura_dsl.elaborate.scope.undecided import OpenNumberError, UndecidableError
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    Opaque,
    OpenText,
    StaticValue,
    TensorList,
    describe,
    is_condition,
    is_initializer,
    is_number,
    is_size,
)
from meganeura_dsl.limits.language_limits import (
    HIGHEST_DEGREE,
    LONGEST_LIST,
    MOST_ATOMS,
    MOST_DIGITS,
    MOST_TERMS,
)
from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.assumptions import And, Compare, Condition, Not, Operator, Or
from meganeura_dsl.symbolic.conditions import atoms_of
from meganeura_dsl.symbolic.polynomial import length_of
from meganeura_dsl.symbolic.size import Dim, Size

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


_TOO_LARGE = 10**MOST_DIGITS


NONZERO = "a divisor other than zero"
"""The words of a message for a division."""
ROUNDED = "a size is rounded from a number the configuration gives"
"""The reason why no proof covers a whole number that is made of any other."""


class KindError(Exception):
    """An operator was given a value it has no meaning for."""

    def __init__(self, wanted: str, found: ElabValue) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.value = found


def combine(operator: str, left: ElabValue, right: ElabValue) -> StaticValue | TensorList:
    """`left operator right` for anything but tensors."""
    if isinstance(left, TensorList) or isinstance(right, TensorList):
        return _joined(operator, left, right)
    return _combine(operator, left, right)


def _joined(operator: str, left: ElabValue, right: ElabValue) -> TensorList:
    """Two lists, at least one of which holds tensors, one behind the other."""
    for side in (left, right):
        if operator != "+" or not (isinstance(side, TensorList) or side == []):
            raise KindError("lists of tensors around `+`", side)
    held = [side.items for side in (left, right) if isinstance(side, TensorList)]
    items = tuple(item for each in held for item in each)
    spend(len(items))
    if len(items) > LONGEST_LIST:
        raise KindError(f"a list of at most {LONGEST_LIST:,}", right)
    return TensorList(items)


def _combine(operator: str, left: ElabValue, right: ElabValue) -> StaticValue:
    if is_size(left) and is_size(right) and operator not in ("and", "or"):
        is_comparison = operator in COMPARISONS
        return (_compare_sizes if is_comparison else _combine_sizes)(operator, left, right)
    if isinstance(left, Axes) or isinstance(right, Axes):
        return _combine_axes(operator, left, right)
    if operator in ("and", "or"):
        return connect(operator, _condition(left), _condition(right))
    if operator in COMPARISONS:
        return compare(operator, left, right)
    if isinstance(left, list) and isinstance(right, list) and operator == "+":
        return _bounded_list([*left, *right], right)
    if isinstance(left, list) and operator == "*" and is_size(right) and isinstance(right, int):
        if len(left) * right > LONGEST_LIST:
            raise KindError(f"a list of at most {LONGEST_LIST:,}", right)
        return _bounded_list(left * right, right)
    if not is_number(left):
        raise KindError("a number", left)
    if not is_number(right):
        raise KindError("a number", right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _combine_numbers(operator, left, right)
    if operator == "//":
        raise UndecidableError(ROUNDED)
    return Opaque.NUMBER


def negate(value: ElabValue) -> StaticValue:
    """The negative of a number, or of each of some axes."""
    if isinstance(value, Opaque):
        return value
    if isinstance(value, Axes):
        return Axes(0 - size for size in value)
    if isinstance(value, float):
        return -value
    if is_size(value):
        return 0 - value
    raise KindError("a number", value)


def invert(value: ElabValue) -> Condition:
    """The opposite of a condition."""
    condition = _condition(value)
    return not condition if isinstance(condition, bool) else Not(condition)


def compare(operator: str, left: ElabValue, right: ElabValue) -> Condition:
    """`left operator right`: true, false, or a condition on sizes."""
    if is_size(left) and is_size(right):
        return _compare_sizes(operator, left, right)
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        other = right if isinstance(left, Opaque) else left
        if not isinstance(other, Opaque) and not is_number(other) and not is_size(other):
            raise KindError(f"something to compare with {describe(left)}", right)
        raise OpenNumberError("a choice depends on a number the configuration gives")
    if isinstance(left, OpenText) or isinstance(right, OpenText):
        if not all(isinstance(each, str | OpenText) for each in (left, right)):
            raise KindError(f"something to compare with {describe(left)}", right)
        raise UndecidableError("a choice depends on a text the configuration gives")
    if is_condition(left) and is_condition(right) and operator in ("==", "!="):
        both = connect(
            "or", connect("and", left, right), connect("and", invert(left), invert(right))
        )
        return both if operator == "==" else invert(both)
    if isinstance(left, Dim) or isinstance(right, Dim):
        size, other = (left, right) if isinstance(left, Dim) else (right, left)
        if isinstance(other, float):
            raise UndecidableError("a choice compares a size with a number that is not whole")
        raise UndecidableError(f"a choice compares `{size}` with {describe(other)}")
    if (is_number(left) and is_number(right)) or (
        operator in ("==", "!=") and isinstance(left, str | list) and type(left) is type(right)
    ):
        return COMPARISONS[operator](left, right)
    raise KindError(f"something to compare with {describe(left)}", right)


def _compare_sizes(operator: str, left: Size, right: Size) -> Condition:
    if isinstance(left, int) and isinstance(right, int):
        return COMPARISONS[operator](left, right)
    return Compare(_comparison(operator), left, right)


def _comparison(operator: str) -> Operator:
    match operator:
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return operator
        case _:
            raise AssertionError(operator)


def _condition(value: ElabValue) -> Condition:
    if is_condition(value):
        return value
    if is_initializer(value):
        return True
    raise KindError("a condition", value)


def connect(operator: str, left: Condition, right: Condition) -> Condition:
    """`left and right` or `left or right`, without what is known to be true or false."""
    neutral = operator == "and"
    if isinstance(left, bool):
        return right if left is neutral else left
    if isinstance(right, bool):
        return left if right is neutral else right
    return _bounded_condition(And((left, right)) if operator == "and" else Or((left, right)))


def _combine_axes(operator: str, left: ElabValue, right: ElabValue) -> StaticValue:
    length = len(left) if isinstance(left, Axes) else len(right) if isinstance(right, Axes) else 0
    lefts = left if isinstance(left, Axes) else (left,) * length
    rights = right if isinstance(right, Axes) else (right,) * length
    if len(lefts) != len(rights):
        raise KindError(f"as many axes as {len(lefts)}", right)
    results = [_combine(operator, a, b) for a, b in zip(lefts, rights, strict=True)]
    if operator in COMPARISONS:
        differs = operator == "!=" and isinstance(left, Axes) and isinstance(right, Axes)
        total: Condition = not differs
        for result in results:
            total = connect("or" if differs else "and", total, _condition(result))
        return total
    sizes = [result for result in results if is_size(result)]
    if len(sizes) != len(results):
        raise KindError("sizes", left)
    return Axes(sizes)


def _combine_sizes(operator: str, left: Size, right: Size) -> StaticValue:
    try:
        return _bounded(_combine_bounded(operator, left, right), right)
    except (OverflowError, ZeroDivisionError) as error:
        raise KindError("numbers whose result is finite", right) from error


def _bounded(value: StaticValue, right: Size) -> StaticValue:
    """The value, unless it is larger than what a size can be."""
    if not is_size(value):
        return value
    largest = value if isinstance(value, int) else max(value.terms.values(), key=abs)
    if abs(largest) >= _TOO_LARGE:
        raise KindError(f"a number of at most {MOST_DIGITS} digits", right)
    if length_of(value) > MOST_TERMS:
        raise KindError(f"a size of at most {MOST_TERMS:,} terms", right)
    return value


def _require_degree(left: Size, right: Size) -> None:
    """A product of sizes stays within what sizes can be."""
    if isinstance(left, Dim) and isinstance(right, Dim):
        degree = sum(max(map(len, size.terms)) for size in (left, right))
        if degree > HIGHEST_DEGREE:
            raise KindError(f"a size of degree {HIGHEST_DEGREE} at most", right)


def length_of_list(items: Sequence[StaticValue]) -> int:
    """The items of a list and of those inside it; somewhat above `LONGEST_LIST` at most."""
    count, waiting = len(items), [items]
    while waiting and count <= LONGEST_LIST:
        for item in waiting.pop():
            if isinstance(item, list):
                count += len(item)
                waiting.append(item)
    spend(count)
    return count


def _bounded_list(items: list[StaticValue], right: ElabValue) -> list[StaticValue]:
    if length_of_list(items) > LONGEST_LIST:
        raise KindError(f"a list of at most {LONGEST_LIST:,}", right)
    return items


def _bounded_condition(condition: Condition) -> Condition:
    count = sum(1 for _ in islice(atoms_of(condition), MOST_ATOMS + 1))
    spend(count)
    if count > MOST_ATOMS:
        raise KindError(f"a condition of at most {MOST_ATOMS} comparisons", condition)
    return condition


def _power(left: Size, right: int) -> Size:
    """A power that stays within what sizes can be."""
    if isinstance(left, int):
        if abs(left) > 1 and right * math.log10(abs(left)) > MOST_DIGITS:
            raise KindError(f"a power of at most {MOST_DIGITS} digits", right)
    elif right > HIGHEST_DEGREE:
        raise KindError(f"an exponent up to {HIGHEST_DEGREE}", right)
    return left**right


def _combine_bounded(operator: str, left: Size, right: Size) -> StaticValue:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            _require_degree(left, right)
            return left * right
        case "//" | "%" | "/" if right == 0:
            raise KindError(NONZERO, right)
        case "//":
            return left // right
        case "%":
            return left % right
        case "/":
            return (
                left / right if isinstance(left, int) and isinstance(right, int) else Opaque.NUMBER
            )
        case "**" if isinstance(right, int) and right >= 0:
            return _power(left, right)
        case "**":
            return (
                float(left) ** right
                if isinstance(left, int) and isinstance(right, int)
                else Opaque.NUMBER
            )
        case _:
            raise KindError(f"tensors around `{operator}`", left)


def _combine_numbers(operator: str, left: float, right: float) -> float:
    """A number; a quotient by `//` is whole, as a size is."""
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "//":
                return int(left // right)
            case "%":
                return left % right
            case "**" if left < 0 and right % 1:
                raise KindError("a whole exponent of a negative number", right)
            case "**":
                return float(left**right)
            case _:
                raise KindError(f"tensors around `{operator}`", left)
    except (ZeroDivisionError, OverflowError) as error:
        raise KindError("numbers whose result is finite", right) from error


STATIC_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "logistic": lambda x: 0.5 * (1 + math.tanh(0.5 * x)),
    "abs": abs,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
}
