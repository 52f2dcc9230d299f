"""Elementwise ops as WGSL: one line for each op."""

from collections.abc import Mapping

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
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Call, ElementReader, Literal
from meganeura_runtime.backends.webgpu.ops.lowered import HalfCopy

TEMPLATES: Mapping[type[Op], str] = {
    Neg: "-({0})",
    Abs: "abs({0})",
    Exp: "exponential({0})",
    Expm1: "exponential_less_one({0})",
    Log: "logarithm({0})",
    Log1p: "logarithm_of_one_and({0})",
    Logistic: "logistic({0})",
    Sqrt: "sqrt({0})",
    Sin: "sine({0})",
    Cos: "cosine({0})",
    Tanh: "hyperbolic_tangent({0})",
    Erf: "error_function({0})",
    Floor: "floor({0})",
    Round: "round({0})",
    Add: "{0} + {1}",
    Sub: "{0} - {1}",
    Mul: "{0} * {1}",
    Div: "{0} / {1}",
    Where: "select({2}, {1}, {0})",
}

EXTREMES: Mapping[type[Op], tuple[str, str]] = {
    Maximum: ("larger({0}, {1})", "max({0}, {1})"),
    Minimum: ("smaller({0}, {1})", "min({0}, {1})"),
}
"""WGSL for floats, which may be NaN, and for integers."""

RELATIONS: Mapping[str, str] = {
    "eq": "{0} == {1}",
    "ne": "!({0} == {1})",  # not `!=`, which adapters take to be false for NaN
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
}

DIVISIONS: Mapping[type[Op], tuple[str, str]] = {
    FloorDivide: ("{0} / {1} - i32({0} - {0} / {1} * {1} < 0i)", "{0} / {1}"),
    Remainder: (
        "{0} - {0} / {1} * {1} + select(0i, {1}, {0} - {0} / {1} * {1} < 0i)",
        "{0} % {1}",
    ),
}
"""WGSL for i32, which WGSL rounds towards zero, and for u32.

Vulkan leaves a `%` of negative numbers undefined (`OpSRem`), and it is wrong on NVIDIA's.
"""

OPS: tuple[type[Op], ...] = (
    *TEMPLATES,
    *EXTREMES,
    *DIVISIONS,
    Compare,
    Cast,
    StopGradient,
    HalfCopy,
)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """The element of an elementwise op, from the operands' elements at the same index."""
    operands = tuple(reading.at(operand, index) for operand in value.operands)
    dtype = value.type.dtype
    known = _folded(value, operands)
    if known is not None:
        return reading.make.literal(known, dtype)
    match value.op:
        case StopGradient() | HalfCopy():
            return operands[0]
        case Compare(kind=kind):
            return reading.make.call(RELATIONS[kind], dtype, *operands)
        case Cast():
            template = conversion(operands[0].dtype, dtype)
            return reading.make.call(template, dtype, *operands) if template else operands[0]
        case Maximum() | Minimum() as op:
            floats, integers = EXTREMES[type(op)]
            return reading.make.call(floats if dtype.is_float else integers, dtype, *operands)
        case FloorDivide(divisor=divisor) | Remainder(divisor=divisor) as op:
            template = DIVISIONS[type(op)][dtype is DType.U32]
            by = reading.make.literal(concrete(divisor), dtype)
            return reading.make.call(template, dtype, *operands, by)
        case Where() if _is_relu(operands) and dtype is DType.F32:
            return reading.make.call("rectified({0})", dtype, operands[2])
        case op:
            return reading.make.call(TEMPLATES[type(op)], dtype, *operands)


def _is_relu(operands: tuple[Expression, ...]) -> bool:
    """True if a choice is 0 where x <= 0, and x elsewhere.

    A driver may compile that to a maximum, which drops NaN; it is written so that none does.
    """
    match operands:
        case (Call(template=template, operands=(x, zero)), Literal() as low, other):
            is_cut = template == RELATIONS["le"] and x is other
            return is_cut and low.value == 0 and zero == low
        case _:
            return False


def _folded(value: Value, operands: tuple[Expression, ...]) -> float | int | bool | None:
    """The number that constants alone give; WGSL refuses constants that overflow or divide by 0."""
    numbers = [
        np.asarray(operand.value, storage_type(operand.dtype))
        for operand in operands
        if isinstance(operand, Literal)
    ]
    if len(numbers) < len(operands):
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(value.op.evaluate(*numbers), storage_type(value.type.dtype))
    return result.item()


def conversion(source: DType, target: DType) -> str:
    """The template that converts between element types; empty where there is nothing to do."""
    match source, target:
        case (DType.F16 | DType.F32, DType.F32) | (DType.F16, DType.F16):
            return ""
        case DType.F32, DType.F16:
            return "f32(f16({0}))"
        case _, DType.F16:
            return "f32(f16(f32({0})))"
        case _, DType.F32:
            return "f32({0})"
        case DType.F16 | DType.F32, DType.I32 | DType.U32:
            return f"to_{target.value}({{0}})"
        case _, DType.I32 | DType.U32:
            return "" if source is target else f"{target.value}({{0}})"
        case DType.BOOL, DType.BOOL:
            return ""
        case DType.F16 | DType.F32, _:
            return "!({0} == 0.0f)"
        case _:
            return f"{{0}} != {'0i' if source is DType.I32 else '0u'}"
