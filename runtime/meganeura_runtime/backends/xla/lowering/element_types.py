"""Element types of the language as JAX has them."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from meganeura_dsl.ir.types import DType

NARROW = frozenset({np.dtype(jnp.float16), np.dtype(jnp.bfloat16)})
"""Float types that values are stored in, and that no elementwise op computes in."""

_TYPES: Mapping[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(jnp.float32),
    DType.F16: np.dtype(jnp.float16),
    DType.I32: np.dtype(jnp.int32),
    DType.U32: np.dtype(jnp.uint32),
    DType.BOOL: np.dtype(jnp.bool_),
}


def jax_type(dtype: DType) -> np.dtype[np.generic]:
    """Returns the type that JAX has for an element type."""
    return _TYPES[dtype]


def widened(x: jax.Array) -> jax.Array:
    """Returns narrow floats in float32, anything else as it is."""
    return lax.convert_element_type(x, jnp.float32) if x.dtype in NARROW else x
