"""Reductions along axes, and sums at places that indices name. All floats arrive in float32."""

import jax
import jax.numpy as jnp
from jax import lax

from meganeura_dsl.ir.ops import ArgMax, ReduceMax, ScatterAdd, Sum
from meganeura_dsl.ir.ops.type_rules import concrete


def sum_(op: Sum, x: jax.Array) -> jax.Array:
    """The sum; integers wrap around."""
    return jnp.sum(x, axis=op.axes, dtype=x.dtype)


def reduce_max(op: ReduceMax, x: jax.Array) -> jax.Array:
    """The largest; NaN is larger than every number."""
    return jnp.max(x, axis=op.axes)


def arg_max(op: ArgMax, x: jax.Array) -> jax.Array:
    """Where the largest is first."""
    return lax.argmax(x, op.axis, jnp.int32)


def scatter_add(op: ScatterAdd, ids: jax.Array, updates: jax.Array) -> jax.Array:
    """Updates added to the rows that ids name; one that names no row is left out."""
    first, last = op.axis, op.axis + ids.ndim
    shape = (*updates.shape[:first], concrete(op.size), *updates.shape[last:])
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(*range(first), *range(last, updates.ndim)),
        inserted_window_dims=(first,),
        scatter_dims_to_operand_dims=(first,),
    )
    return lax.scatter_add(
        jnp.zeros(shape, updates.dtype),
        ids[..., None],
        updates,
        numbers,
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
