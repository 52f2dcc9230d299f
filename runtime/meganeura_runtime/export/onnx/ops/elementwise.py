"""Ops of each element by itself, which broadcast."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    Cast,
    Compare,
    Cos,
    Div,
    Erf,
    Exp,
    Expm1,
    Floor,
    FloorDivide,
    Log,
    Log1p,
    Logistic,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Remainder,
    Round,
    Sin,
    Sqrt,
    StopGradient,
    Sub,
    Tanh,
    Where,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.onnx.emitter import ELEMENT
from meganeura_runtime.export.onnx.lowering import INT64, Lower, Lowering, OnnxTensor


def elementwise(op_type: str) -> Lower:
    """An op that is one node, and broadcasts."""

    def lower(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
        return broadcasting(into, value.operands, lambda *names: into.emitter.add(op_type, *names))

    return lower


def broadcasting(
    into: Lowering, operands: Sequence[Value], make: Callable[..., str]
) -> tuple[OnnxTensor, ...]:
    """Returns the results of nodes that broadcast, for operands of equal shape."""
    tensors = [into.tensors[each.id] for each in operands]
    stretched = frozenset[int].intersection(*[each.stretched for each in tensors])
    name = make(*[each.name for each in tensors])
    return (OnnxTensor(name, max(each.rank for each in tensors), stretched),)


def _remainder(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, Remainder)
    number = into.emitter.add("Squeeze", into.sizes.vector(op.divisor))
    divisor = into.emitter.add("Cast", number, to=ELEMENT[value.type.dtype])

    def make(x: str) -> str:
        return into.emitter.add("Mod", x, divisor)

    return broadcasting(into, value.operands, make)


def _floor_divide(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, add = value.op, into.emitter.add
    assert isinstance(op, FloorDivide)
    divisor = add("Squeeze", into.sizes.vector(op.divisor))

    def make(x: str) -> str:
        # `Div` truncates. What `Mod` leaves has the sign of the divisor, so this is the floor.
        wide = add("Cast", x, to=INT64)
        floor = add("Div", add("Sub", wide, add("Mod", wide, divisor)), divisor)
        return add("Cast", floor, to=ELEMENT[value.type.dtype])

    return broadcasting(into, value.operands, make)


def _compare(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, Compare)

    def make(a: str, b: str) -> str:
        if op.kind == "ne":
            return into.emitter.add("Not", into.emitter.add("Equal", a, b))
        return into.emitter.add(RELATIONS[op.kind], a, b)

    return broadcasting(into, value.operands, make)


RELATIONS: Mapping[str, str] = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def _where(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    def of_bools(condition: str, a: str, b: str) -> str:
        add = into.emitter.add
        return add("Or", add("And", condition, a), add("And", add("Not", condition), b))

    def of_numbers(condition: str, a: str, b: str) -> str:
        return into.emitter.add("Where", condition, a, b)

    make = of_bools if value.type.dtype is DType.BOOL else of_numbers
    return broadcasting(into, value.operands, make)


def _log1p(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    def make(x: str) -> str:
        # ONNX has no such op. Near 0, where 1 + x is rounded, log(1 + x) = 2 atanh(x / (2 + x)).
        add, one, two = into.emitter.add, number(1), number(2)
        near = add("Mul", two, add("Atanh", add("Div", x, add("Add", two, x))))
        far = add("Log", add("Add", one, x))
        return add("Where", add("Less", add("Abs", x), number(0.5)), near, far)

    number = _numbers(into, value)
    return broadcasting(into, value.operands, make)


def _expm1(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    def make(x: str) -> str:
        # Near 0, where e^x - 1 cancels, it is 2 t / (1 - t) with t = tanh(x / 2).
        add, one = into.emitter.add, number(1)
        t = add("Tanh", add("Mul", x, number(0.5)))
        near = add("Div", add("Add", t, t), add("Sub", one, t))
        far = add("Sub", add("Exp", x), one)
        return add("Where", add("Less", add("Abs", x), number(0.5)), near, far)

    number = _numbers(into, value)
    return broadcasting(into, value.operands, make)


def _numbers(into: Lowering, value: Value) -> Callable[[float], str]:
    dtype = storage_type(value.type.dtype)
    return lambda number: into.emitter.constant(np.array(number, dtype))


def _cast(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    to = ELEMENT[value.type.dtype]

    def make(x: str) -> str:
        return into.emitter.add("Cast", x, to=to)

    return broadcasting(into, value.operands, make)


def _same(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    return (into.tensors[value.operands[0].id],)


OPS: Mapping[type[Op], Lower] = {
    Abs: elementwise("Abs"),
    Add: elementwise("Add"),
    Cast: _cast,
    Compare: _compare,
    Cos: elementwise("Cos"),
    Div: elementwise("Div"),
    Erf: elementwise("Erf"),
    Exp: elementwise("Exp"),
    Expm1: _expm1,
    Floor: elementwise("Floor"),
    FloorDivide: _floor_divide,
    Log: elementwise("Log"),
    Log1p: _log1p,
    Logistic: elementwise("Sigmoid"),
    Maximum: elementwise("Max"),
    Minimum: elementwise("Min"),
    Mul: elementwise("Mul"),
    Neg: elementwise("Neg"),
    Remainder: _remainder,
    Round: elementwise("Round"),
    Sin: elementwise("Sin"),
    Sqrt: elementwise("Sqrt"),
    StopGradient: _same,
    Sub: elementwise("Sub"),
    Tanh: elementwise("Tanh"),
    Where: _where,
}
