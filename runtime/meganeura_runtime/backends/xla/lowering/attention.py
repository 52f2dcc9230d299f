"""Attention by `jax.nn.dot_product_attention`, which calls cuDNN if asked to."""

from math import prod

import jax
import jax.numpy as jnp
from jax import lax, nn

from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_runtime.backends.xla.ops.attention import Library


def attention(
    whole: Attention, library: Library, q: jax.Array, k: jax.Array, v: jax.Array
) -> jax.Array:
    """Returns the weighted mean of values, in bfloat16: [..., heads, s, d] as q.

    A window of w positions is a row's own and the w - 1 before it.
    """
    rows, keys = q.shape[-2], k.shape[-2]
    queries, *others = (_rows_first(x, library.multiple) for x in (q, k, v))
    found = nn.dot_product_attention(
        queries,
        *others,
        scale=whole.scale,
        is_causal=whole.causal,
        query_seq_lengths=_lengths(queries, rows),
        key_value_seq_lengths=_lengths(others[0], keys),
        local_window_size=(whole.window - 1, 0) if whole.window else None,
        implementation=library.implementation,
    )[:, :rows]
    return lax.reshape(jnp.swapaxes(found, 1, 2), (*q.shape[:-1], v.shape[-1]))


def _rows_first(x: jax.Array, multiple: int) -> jax.Array:
    """Returns [..., heads, s, d] as bfloat16 [batch, s, heads, d], padded to a multiple of rows."""
    *batch, heads, rows, width = x.shape
    joined = lax.reshape(x, (prod(batch), heads, rows, width))
    found = lax.convert_element_type(jnp.swapaxes(joined, 1, 2), jnp.bfloat16)
    return jnp.pad(found, ((0, 0), (0, -rows % multiple), (0, 0), (0, 0)))


def _lengths(x: jax.Array, rows: int) -> jax.Array | None:
    """Returns the number of rows of each example, if `x` is padded."""
    return None if x.shape[1] == rows else jnp.full(x.shape[:1], rows, jnp.int32)
