"""Built-in functions whose results are sizes, numbers and facts about types."""

from collections.abc import Callable
from contextlib import suppress

from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.static_arithmetic import ROUNDED
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    Opaque,
    TensorList,
)
from meganeura_dsl.symbolic.size import Dim, product


def rank(call: BuiltinCall) -> ElabValue:
    """Returns the number of axes of a tensor."""
    return call.tensor(0).type.rank


def size_of(call: BuiltinCall) -> ElabValue:
    """Returns the size of an axis of a tensor."""
    value = call.tensor(0)
    return value.type.shape[call.axis(call.option(1, "axis"), value.type.rank)]


def shape_of(call: BuiltinCall) -> ElabValue:
    """Returns all sizes of a tensor."""
    return Axes(call.tensor(0).type.shape)


def is_integer(call: BuiltinCall) -> ElabValue:
    """Returns True if a tensor holds integers."""
    return call.tensor(0).type.dtype.is_integer


def length(call: BuiltinCall) -> ElabValue:
    """Returns the number of items of a list; raises `UndecidableError` for one that is a symbol."""
    value = call.option(0, "list")
    if isinstance(value, list | Axes):
        return len(value)
    if isinstance(value, TensorList):
        return len(value.items)
    if isinstance(value, Dim):
        raise UndecidableError("`len` needs the list the configuration gives")
    raise call.wrong("a list", value)


def product_of_axes(call: BuiltinCall) -> ElabValue:
    """Returns the product of sizes; raises `UndecidableError` for a list that is a symbol."""
    value = call.option(0, "axes")
    if isinstance(value, Dim):
        raise UndecidableError("`product` needs the list the configuration gives")
    return product(call.shape(0, "axes"))


def truncated(call: BuiltinCall) -> ElabValue:
    """Returns a number without its fraction; raises `UndecidableError` for one that is a symbol."""
    return rounded(call, int, call.option(0, "x"))


def rounded(call: BuiltinCall, function: Callable[[float], int], value: ElabValue) -> int:
    """Returns the whole number that a function gives for a number.

    Raises `UndecidableError` for one that is a symbol, `ProblemError` for anything else and for
    numbers that are not finite.
    """
    if isinstance(value, Dim | Opaque):
        raise UndecidableError(ROUNDED)
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError, ValueError):
            return function(value)
        raise call.wrong("a finite number", value)
    raise call.wrong("a number", value)
