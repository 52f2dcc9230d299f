"""Rows of a table. A row that is not there is NaN, or the least or largest integer."""

import jax
from jax import lax

from meganeura_dsl.ir.ops import Gather


def gather(op: Gather, table: jax.Array, ids: jax.Array) -> jax.Array:
    """The rows that ids name, in the table's type."""
    first, last = op.axis, op.axis + ids.ndim
    rank = table.ndim + ids.ndim - 1
    sizes = tuple(1 if axis == first else size for axis, size in enumerate(table.shape))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(first), *range(last, rank)),
        collapsed_slice_dims=(first,),
        start_index_map=(first,),
    )
    mode = lax.GatherScatterMode.FILL_OR_DROP
    return lax.gather(table, ids[..., None], numbers, sizes, mode=mode)
