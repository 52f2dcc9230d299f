"""Elementwise ops: operands and result have one shape.

Narrow floats arrive in float32.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from meganeura_dsl.ir.graph import Op
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
    Sub,
    Tanh,
    Where,
)
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.config.measured_choices import TANH_BY_EXPONENTIAL
from meganeura_runtime.backends.xla.lowering.element_types import jax_type


def _round(x: jax.Array) -> jax.Array:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


UNARY: Mapping[type[Op], Callable[[jax.Array], jax.Array]] = {
    Neg: lax.neg,
    Abs: lax.abs,
    Exp: lax.exp,
    Expm1: lax.expm1,
    Log: lax.log,
    Log1p: lax.log1p,
    Logistic: lax.logistic,
    Sqrt: lax.sqrt,
    Sin: lax.sin,
    Cos: lax.cos,
    Tanh: lax.tanh,
    Erf: lax.erf,
    Floor: lax.floor,
    Round: _round,
}
BINARY: Mapping[type[Op], Callable[[jax.Array, jax.Array], jax.Array]] = {
    Add: lax.add,
    Sub: lax.sub,
    Mul: lax.mul,
    Div: lax.div,
    Maximum: lax.max,
    Minimum: lax.min,
}


def tanh_by_exponential(_op: Tanh, x: jax.Array) -> jax.Array:
    """Returns tanh with an error of at most 2^-15, in few instructions.

    XLA recomputes it for the slope of a gelu; `lax.tanh` it would store in float32. Near 0, where
    1 - 2 / (exp(2 x) + 1) cancels, two terms of the series are used.
    """
    large = 1 - lax.div(jnp.full(x.shape, 2, x.dtype), lax.exp(x * 2) + 1)
    small = x - x * x * x * (1 / 3)
    return lax.select(lax.abs(x) < TANH_BY_EXPONENTIAL.value, small, large)


def compare(op: Compare, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the elementwise comparison."""
    match op.kind:
        case "eq":
            return lax.eq(a, b)
        case "ne":
            return lax.ne(a, b)
        case "lt":
            return lax.lt(a, b)
        case "le":
            return lax.le(a, b)
        case "gt":
            return lax.gt(a, b)
        case "ge":
            return lax.ge(a, b)
        case _:
            assert_never(op.kind)


def floor_divide(op: FloorDivide, x: jax.Array) -> jax.Array:
    """Returns x divided by a size, rounded down."""
    return jnp.floor_divide(x, jnp.asarray(concrete(op.divisor), x.dtype))


def remainder(op: Remainder, x: jax.Array) -> jax.Array:
    """Returns the remainder of that division, which is not negative."""
    return jnp.remainder(x, jnp.asarray(concrete(op.divisor), x.dtype))


def where(_op: Where, condition: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns a where the condition holds, b elsewhere."""
    return lax.select(condition, a, b)


def cast(op: Cast, x: jax.Array) -> jax.Array:
    """Returns x in another type; floats saturate at the limits of integers, and NaN becomes 0."""
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    match op.dtype:
        case DType.BOOL:
            return x if x.dtype == jnp.bool_ else lax.ne(x, jnp.zeros((), x.dtype))
        case DType.I32 if is_float:
            return _as_integer(x, np.int32)
        case DType.U32 if is_float:
            return _as_integer(x, np.uint32)
        case DType.F32 | DType.F16 | DType.I32 | DType.U32:
            return lax.convert_element_type(x, jax_type(op.dtype))
        case _:
            assert_never(op.dtype)


def _as_integer(x: jax.Array, wanted: type[np.int32 | np.uint32]) -> jax.Array:
    limits = np.iinfo(wanted)
    # No float32 is 2**31 - 1 or 2**32 - 1: the first beyond saturates, the one below is exact.
    beyond = np.float32(limits.max)
    below = np.nextafter(beyond, np.float32(0))
    numbers = jnp.where(jnp.isnan(x), 0, jnp.clip(x, np.float32(limits.min), below))
    converted = lax.convert_element_type(numbers, wanted)
    return jnp.where(x >= beyond, jnp.array(limits.max, wanted), converted)
