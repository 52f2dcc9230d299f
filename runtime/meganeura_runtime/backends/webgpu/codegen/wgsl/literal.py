"""Numbers and element types as WGSL text that means exactly the number."""

from math import isinf, isnan

import numpy as np

from meganeura_dsl.ir.types import DType


def register_type(dtype: DType) -> str:
    """The WGSL type a value has while it is computed with: halves are computed with as f32."""
    return "f32" if dtype is DType.F16 else dtype.value


def memory_type(dtype: DType) -> str:
    """The WGSL type an element has in a buffer: a bool takes a word, as no smaller type exists."""
    return "u32" if dtype is DType.BOOL else dtype.value


def literal(value: float | bool, dtype: DType) -> str:  # noqa: FBT001 a value, not a flag
    """WGSL text for a constant of a type."""
    match dtype:
        case DType.BOOL:
            return "true" if value else "false"
        case DType.U32:
            return f"{int(value)}u"
        case DType.I32:
            # -2147483648 would be the negation of a number that is no i32.
            return f"{int(value)}i" if int(value) > -(1 << 31) else "i32(-2147483648)"
        case DType.F16:
            return float_literal(float(np.float16(value)))
        case DType.F32:
            return float_literal(float(value))


def float_literal(value: float) -> str:
    """The f32 nearest to a number, as the shortest decimal that reads back as it."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if isnan(single):
        return "from_bits(0x7fc00000u)"
    if isinf(single):
        return f"from_bits({'0x7f800000u' if single > 0 else '0xff800000u'})"
    if abs(single) == np.finfo(np.float32).max:
        # Its shortest decimal is a little more than it, which Tint refuses.
        return "0x1.fffffep+127f" if single > 0 else "-0x1.fffffep+127f"
    return f"{single!s}f"
