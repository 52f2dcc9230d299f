"""Max pooling. The elements of a window are its taps, in row-major order; each is a strided slice.

A window's index is found, and read, by comparing it with the number of each tap: all taps are read
in one fused loop, ties go to the first as in the reference, and no element is scattered.
"""

from collections.abc import Iterator
from itertools import product

import jax
import jax.numpy as jnp
from jax import lax

from meganeura_dsl.ir.ops import MaxPool, MaxPoolGradient, MaxPoolSelect
from meganeura_dsl.ir.ops.primitive.pool import Pooling
from meganeura_dsl.ir.ops.type_rules import concrete_shape


def max_pool(op: MaxPool, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the largest of each window, and its index; NaN is larger than every number."""
    window, stride, padding = map(concrete_shape, (op.window, op.stride, op.padding))
    largest = lax.reduce_window(
        x,
        jnp.array(-jnp.inf, x.dtype),
        lax.max,
        (1, 1, *window),
        (1, 1, *stride),
        [(0, 0), (0, 0), *((size, size) for size in padding)],
    )
    index = jnp.zeros(largest.shape, jnp.int32)
    smaller = jnp.ones(largest.shape, jnp.bool_)
    *before, _ = taps(op, x, -jnp.inf)
    for tap in before:
        # An index is the number of taps before the first that is largest.
        smaller &= (tap != largest) & ~jnp.isnan(tap)
        index += smaller
    return largest, index


def max_pool_select(op: MaxPoolSelect, indices: jax.Array, g: jax.Array) -> jax.Array:
    """Returns the element at each window's index."""
    selected = jnp.zeros(indices.shape, g.dtype)
    for number, tap in enumerate(taps(op, g, 0)):
        selected = jnp.where(indices == number, tap, selected)
    return selected


def max_pool_gradient(op: MaxPoolGradient, indices: jax.Array, dy: jax.Array) -> jax.Array:
    """Adds each window's cotangent at its index: the transpose of `max_pool_select`, by taps."""
    window, stride, padding, spatial = map(
        concrete_shape, (op.window, op.stride, op.padding, op.spatial)
    )
    zero = jnp.zeros((), dy.dtype)
    total = jnp.zeros((*dy.shape[:2], *spatial), dy.dtype)
    for number, offset in enumerate(product(*map(range, window))):
        chosen = jnp.where(indices == number, dy, zero)
        axes = zip(offset, padding, stride, spatial, dy.shape[2:], strict=True)
        placed = [
            (at - around, size - (at - around) - (count - 1) * step - 1, step - 1)
            for at, around, step, size, count in axes
        ]
        total += lax.pad(chosen, zero, ((0, 0, 0), (0, 0, 0), *placed))
    return total


def taps(op: Pooling, x: jax.Array, outside: float) -> Iterator[jax.Array]:
    """Yields each tap of all windows."""
    window, stride, padding = map(concrete_shape, (op.window, op.stride, op.padding))
    around = ((0, 0, 0), (0, 0, 0), *((size, size, 0) for size in padding))
    padded = lax.pad(x, jnp.array(outside, x.dtype), around)
    sizes = zip(padded.shape[2:], window, stride, strict=True)
    counts = [(size - reach) // step + 1 for size, reach, step in sizes]
    for offset in product(*map(range, window)):
        axes = zip(offset, counts, stride, strict=True)
        stop = [at + (count - 1) * step + 1 for at, count, step in axes]
        yield lax.slice(padded, (0, 0, *offset), (*x.shape[:2], *stop), (1, 1, *stride))
