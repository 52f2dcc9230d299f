"""Rows of a table, and slices at dynamic offsets. Missing rows are NaN, or the least integer."""

import jax
from jax import lax

from meganeura_dsl.ir.ops import DynamicSlice, DynamicUpdate, Gather
from meganeura_dsl.ir.ops.type_rules import concrete_shape


def gather(op: Gather, table: jax.Array, ids: jax.Array) -> jax.Array:
    """Returns the rows that ids name, in the table's type."""
    axis = op.axis - op.batch

    def rows(table: jax.Array, ids: jax.Array) -> jax.Array:
        return _rows(axis, table, ids)

    for _ in range(op.batch):
        rows = jax.vmap(rows)
    return rows(table, ids)


def _rows(first: int, table: jax.Array, ids: jax.Array) -> jax.Array:
    last = first + ids.ndim
    rank = table.ndim + ids.ndim - 1
    sizes = tuple(1 if axis == first else size for axis, size in enumerate(table.shape))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(first), *range(last, rank)),
        collapsed_slice_dims=(first,),
        start_index_map=(first,),
    )
    mode = lax.GatherScatterMode.FILL_OR_DROP
    return lax.gather(table, ids[..., None], numbers, sizes, mode=mode)


def dynamic_slice(op: DynamicSlice, x: jax.Array, *starts: jax.Array) -> jax.Array:
    """Returns the slice at the starts, which were proved or checked to be within bounds."""
    return lax.dynamic_slice(x, starts, concrete_shape(op.sizes))


def dynamic_update(
    _op: DynamicUpdate, x: jax.Array, part: jax.Array, *starts: jax.Array
) -> jax.Array:
    """Returns x with a slice replaced."""
    return lax.dynamic_update_slice(x, part, starts)
