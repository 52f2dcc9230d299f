"""The built-in function `constant`: a tensor of numbers that a program lists."""

from collections.abc import Iterator
from itertools import groupby

from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.typecheck import tensor_values
from meganeura_dsl.elaborate.values import ElabValue, Opaque, is_number
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim

Number = float | Dim | Opaque
"""The type of an entry; a bool is an int."""


def constant(call: BuiltinCall) -> ElabValue:
    """The numbers of a list, or of lists of one length in it: equal neighbours are one operand."""
    values = call.option(0, "values")
    shape = _shape(call, values)
    numbers = list(_entries(call, values))
    dtype = _dtype(call, numbers)
    parts = [
        tensor_values.scalar(call.frame, call.span, number, dtype, (len(list(same)),))
        for number, same in groupby(numbers)
    ]
    row = parts[0] if len(parts) == 1 else call.add(ops.Concat(0), *parts)
    return row if len(shape) == 1 else call.add(ops.Reshape(shape), row)


def _shape(call: BuiltinCall, values: ElabValue) -> tuple[int, ...]:
    """The length of a list and of those in it, which must agree."""
    if not isinstance(values, list) or not values:
        raise call.wrong("a list of numbers, or of lists of numbers, in brackets", values)
    below = [_shape(call, each) if isinstance(each, list) else () for each in values]
    for number, each in enumerate(below):
        if each != below[0]:
            fault = f"needs lists of one length, and entry {number} is not like entry 0"
            raise call.fault(fault)
    return (len(values), *below[0])


def _entries(call: BuiltinCall, values: ElabValue) -> Iterator[Number]:
    """All numbers, the last axis first."""
    if isinstance(values, list):
        for each in values:
            yield from _entries(call, each)
    elif isinstance(values, bool) or (
        is_number(values) and not call.frame.state.differs_by_iteration(values)
    ):
        yield values
    else:
        raise call.wrong("a number of the program in the list", values)


def _dtype(call: BuiltinCall, numbers: list[Number]) -> DType:
    """f32 if one of the numbers is real, i32 if all are whole; bool if none is a number."""
    truths = [isinstance(each, bool) for each in numbers]
    if all(truths):
        return DType.BOOL
    if any(truths):
        raise call.fault("has numbers and truth values in one list")
    is_real = any(isinstance(each, float | Opaque) for each in numbers)
    return DType.F32 if is_real else DType.I32
