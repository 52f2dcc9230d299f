"""Attention by `jax.nn.dot_product_attention`, which calls cuDNN where it is asked to."""

from math import prod

import jax
import jax.numpy as jnp
from jax import lax, nn

from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_runtime.backends.xla.attention_ops import Library


def attention(
    whole: Attention, library: Library, q: jax.Array, k: jax.Array, v: jax.Array
) -> jax.Array:
    """The weighted mean of values, in bfloat16: [..., heads, s, d] as q.

    A window of w positions is a row's own and the w - 1 before it.
    """
    found = nn.dot_product_attention(
        *map(_rows_first, (q, k, v)),
        scale=whole.scale,
        is_causal=whole.causal,
        local_window_size=(whole.window - 1, 0) if whole.window else None,
        implementation=library,
    )
    return lax.reshape(jnp.swapaxes(found, 1, 2), (*q.shape[:-1], v.shape[-1]))


def _rows_first(x: jax.Array) -> jax.Array:
    """[..., heads, s, d] as [batch, s, heads, d] of bfloat16."""
    *batch, heads, rows, width = x.shape
    joined = lax.reshape(x, (prod(batch), heads, rows, width))
    return lax.convert_element_type(jnp.swapaxes(joined, 1, 2), jnp.bfloat16)
