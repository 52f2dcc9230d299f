"""Ops that move elements. They compute nothing, so any type stays as it is stored."""

import jax
import jax.numpy as jnp
from jax import lax

from meganeura_dsl.ir.ops import (
    Broadcast,
    Concat,
    Pad,
    Reshape,
    Reverse,
    Slice,
    StopGradient,
    Transpose,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape


def broadcast(op: Broadcast, x: jax.Array) -> jax.Array:
    """Returns x repeated along new axes."""
    return lax.broadcast_in_dim(x, concrete_shape(op.shape), op.axes)


def reshape(op: Reshape, x: jax.Array) -> jax.Array:
    """Returns x in another shape, in row-major order."""
    return lax.reshape(x, concrete_shape(op.shape))


def transpose(op: Transpose, x: jax.Array) -> jax.Array:
    """Returns x with its axes permuted."""
    return lax.transpose(x, op.permutation)


def slice_(op: Slice, x: jax.Array) -> jax.Array:
    """Returns a strided slice."""
    return lax.slice(x, *map(concrete_shape, (op.start, op.stop, op.step)))


def pad(op: Pad, x: jax.Array) -> jax.Array:
    """Returns x with zeros around its elements and between them."""
    axes = zip(*map(concrete_shape, (op.low, op.high, op.interior)), strict=True)
    return lax.pad(x, jnp.zeros((), x.dtype), tuple(axes))


def concat(op: Concat, *parts: jax.Array) -> jax.Array:
    """Returns the concatenation along an axis."""
    return lax.concatenate(parts, op.axis)


def reverse(op: Reverse, x: jax.Array) -> jax.Array:
    """Returns x reversed along axes."""
    return lax.rev(x, op.axes)


def stop_gradient(_op: StopGradient, x: jax.Array) -> jax.Array:
    """Returns x: gradients are in the graph already."""
    return x
