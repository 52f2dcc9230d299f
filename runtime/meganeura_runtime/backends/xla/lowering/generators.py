"""Values that are functions of their index: numbers, ranges, random words."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from meganeura_dsl.ir.ops import Constant, Iota, RandomBits
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_runtime.backends.xla.lowering.element_types import jax_type

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def constant(op: Constant) -> jax.Array:
    """Returns a scalar."""
    return jnp.array(op.evaluate().astype(jax_type(op.dtype)))


def iota(op: Iota) -> jax.Array:
    """Returns 0, 1, ..., size - 1."""
    return lax.iota(jnp.int32, concrete(op.size))


def random_bits(op: RandomBits, counter: jax.Array) -> jax.Array:
    """Returns the first word of Threefry-2x32-20, as `RandomBits` defines it.

    The number of a word is computed from its index, so that each device draws its own.
    """
    shape = concrete_shape(op.shape)
    key = (counter[0], counter[1], PARITY ^ counter[0] ^ counter[1])
    first = _index(shape) + key[0]
    second = jnp.full(shape, op.stream, jnp.uint32) + key[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            first = first + second
            second = _rotated(second, rotation) ^ first
        injected = group + 1
        first = first + key[injected % 3]
        second = second + key[(injected + 1) % 3] + np.uint32(injected)
    return first


def _index(shape: tuple[int, ...]) -> jax.Array:
    """Returns the row-major index of each element, modulo 2**32."""
    index, stride = jnp.zeros(shape, jnp.uint32), 1
    for axis in reversed(range(len(shape))):
        along = lax.broadcasted_iota(jnp.uint32, shape, axis)
        index = index + along * np.uint32(stride % (1 << 32))
        stride *= shape[axis]
    return index


def _rotated(x: jax.Array, by: int) -> jax.Array:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))
