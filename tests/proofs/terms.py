"""Terms of rules: their values, and what a match says when two are equal."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from meganeura_verify.terms import Term

from meganeura_dsl.symbolic.size import Dim, Size, dim, product
from tests.proofs.equality import difference
from tests.proofs.reals import Element, Function, Real, Whole, fresh, number, whole
from tests.proofs.tensors import IllTypedError, Scope, Tensor, others, require
from tests.proofs.worlds import World

Value = Any


class NotBoundError(Exception):
    """A term has a variable that is not bound yet."""


@dataclass(frozen=True)
class Type:
    """The type of a tensor."""

    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True)
class Instance:
    """A rule's variables, each with its value, in a world of sizes."""

    world: World = field(default_factory=World)
    bound: Mapping[str, Value] = field(default_factory=dict[str, Value])
    numbers: Mapping[str, Real] = field(default_factory=dict[str, Real])
    """Unknown numbers that an equation has replaced."""


def as_real(value: Value) -> Real:
    """A number as an expression."""
    return value if isinstance(value, Real) else number(value)


# --- terms ----------------------------------------------------------------------------------------


def bound_to(instance: Instance, name: Term) -> Value:
    """The value of a variable; raises `NotBoundError`."""
    if not isinstance(name, str) or name not in instance.bound:
        raise NotBoundError(str(name))
    return instance.bound[name]


def evaluate(instance: Instance, term: Term) -> Value:
    """The value of a term without ops; raises `NotBoundError`."""
    if isinstance(term, str):
        return _literal(instance, term)
    head, *rest = term
    values = [evaluate(instance, each) for each in rest]
    match head, values:
        case "type", [Tensor() as x]:
            return Type(x.dtype, x.shape)
        case "T", [str(dtype), tuple(shape)]:
            return Type(dtype, shape)
        case "vec-empty", []:
            return ()
        case "vec-of", [Tensor(), *_]:
            return values
        case "vec-of", _:
            return tuple(values)
        case "vec-length", [items]:
            return len(items)
        case "vec-get", [items, place]:
            place = _plain(instance, place)
            require(0 <= place < len(items), f"no item {place}")
            return items[place]
        case "vec-set", [tuple(items), place, item]:
            place = _plain(instance, place)
            require(0 <= place < len(items), f"no item {place}")
            return (*items[:place], item, *items[place + 1 :])
        case "not", [bool(value)]:
            return not value
        case "to-i64", [value]:
            size = whole(as_real(value))
            require(size is not None, "a number that is no integer")
            return size
        case "abs", [value]:
            return Function("abs", as_real(value))
        case "others", [tuple(axes), int(rank)]:
            return others(axes, rank)
        case "count", [tuple(shape), tuple(axes)]:
            return Whole(product(shape[axis] for axis in axes))
        case "joined", [tuple(inner), tuple(outer)]:
            left = others(inner, 64)
            return tuple(sorted((*inner, *(left[axis] for axis in outer))))
        case "filled", [int(rank), int(value)]:
            return (value,) * rank
        case "swapped", [int(rank)]:
            require(rank >= 2, "two axes to swap")
            return (*range(rank - 2), rank - 1, rank - 2)
        case "symbol", []:
            return dim(fresh("any"))
        case "max", _:  # in bounds of costs alone
            return dim(fresh("most"))
        case "outputs", [bool(turned)]:
            return 0 if turned else 1
        case (("+" | "-" | "*" | "/"), [left, right]):
            return _arithmetic(head, left, right)
        case _:
            raise TypeError(f"`{head}` is no function of {values}")


def _plain(instance: Instance, size: Size) -> int:
    found = instance.world.normal(size)
    require(isinstance(found, int), f"{found} is no number")
    assert isinstance(found, int)
    return found


def _literal(instance: Instance, word: str) -> Value:
    if word in instance.bound:
        return instance.bound[word]
    if word in ("true", "false"):
        return word == "true"
    if word.startswith('"'):
        return word[1:-1]
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return Fraction(word)
    except ValueError:
        raise NotBoundError(word) from None


def _arithmetic(operator: str, left: Value, right: Value) -> Value:
    if all(isinstance(each, int | Dim) for each in (left, right)):
        if operator == "/":
            return left // right
        return {"+": left + right, "-": left - right, "*": left * right}[operator]
    one, other = as_real(left), as_real(right)
    if operator == "/":
        return one / other
    return {"+": one + other, "-": one - other, "*": one * other}[operator]


# --- conditions -----------------------------------------------------------------------------------


def equal(instance: Instance, left: Term, right: Term) -> Instance:
    """The instance where two terms are equal; raises `IllTypedError` where they cannot be."""
    try:
        value = evaluate(instance, right)
    except NotBoundError:
        return equal_values(instance, right, evaluate(instance, left))
    return equal_values(instance, left, value)


def equal_values(instance: Instance, pattern: Term, value: Value) -> Instance:
    """The instance where a pattern has a value: its variables bound, or equal to it."""
    try:
        known = evaluate(instance, pattern)
    except NotBoundError:
        known = None
    if known is not None:
        return _same(instance, known, value)
    if isinstance(pattern, str):
        return replace(instance, bound={**instance.bound, pattern: value})
    match pattern, value:
        case ("T", dtype, shape), Type() as of:
            return equal_values(equal_values(instance, dtype, of.dtype), shape, of.shape)
        case ("vec-of", *items), tuple() if len(items) == len(value):
            for item, each in zip(items, value, strict=True):
                instance = equal_values(instance, item, each)
            return instance
        case ("vec-of", *_), tuple():
            raise IllTypedError("vectors of two lengths")
        case _:
            raise NotBoundError(str(pattern))


def _same(instance: Instance, left: Value, right: Value) -> Instance:
    match left, right:
        case Type(), Type():
            require(left.dtype == right.dtype, "types of elements")
            return _same(instance, left.shape, right.shape)
        case tuple(), tuple():
            require(len(left) == len(right), "vectors of two lengths")
            for one, other in zip(left, right, strict=True):
                instance = _same(instance, one, other)
            return instance
        case ((bool() | str()), _):
            require(left == right and type(left) is type(right), f"{left} and {right}")
            return instance
        case ((int() | Dim()), (int() | Dim())) if not isinstance(right, bool):
            world = instance.world.where_equal(left, right)
            require(world is not None, f"{left} == {right}")
            assert world is not None
            return replace(instance, world=world)
        case ((Real() | Fraction() | int() | Dim()), (Real() | Fraction() | int() | Dim())):
            return _same_numbers(instance, as_real(left), as_real(right))
        case Tensor(), Tensor():
            return _same_tensors(instance, left, right)
        case _:
            raise IllTypedError(f"{left} and {right}")


def _same_numbers(instance: Instance, left: Real, right: Real) -> Instance:
    if not difference(instance.world, left, right, instance.numbers).terms:
        return instance
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Element) and not one.index:
            return replace(instance, numbers={**instance.numbers, one.name: other})
    raise IllTypedError("two numbers")


def _same_tensors(instance: Instance, left: Tensor, right: Tensor) -> Instance:
    """Two patterns of one value: only where they are equal anyway."""
    scope = Scope(instance.world)
    scope.same_type(left, right)
    world = scope.world
    index = tuple(dim(fresh("i")) for _ in left.shape)
    for name, size in zip(index, left.shape, strict=True):
        world = world.with_range(str(name), size)
    rest = difference(world, left.at(index), right.at(index), instance.numbers)
    require(not rest.terms, "two tensors")
    return replace(instance, world=scope.world)


def tested(instance: Instance, operator: str, left: Term, right: Term) -> Instance:
    """The instance where a comparison holds; of numbers, types and tensors nothing is assumed."""
    one, other = evaluate(instance, left), evaluate(instance, right)
    if isinstance(one, str):
        require((one == other) == (operator != "!="), f"{one} {operator} {other}")
        return instance
    if operator == "!=" or not all(isinstance(each, int | Dim) for each in (one, other)):
        return instance
    if operator in ("<", "<="):
        one, other = other, one
    strict = 1 if operator in ("<", ">") else 0
    world = instance.world.where_at_least(one - strict, other)
    require(world is not None, f"{one} {operator} {other}")
    assert world is not None
    return replace(instance, world=world)
