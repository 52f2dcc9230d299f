from typing import Literal

from jax import Array

def dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float,
    is_causal: bool,
    query_seq_lengths: Array | None,
    key_value_seq_lengths: Array | None,
    local_window_size: tuple[int, int] | None,
    implementation: Literal["cudnn", "xla"],
) -> Array: ...
def gelu(x: Array, approximate: bool = True) -> Array: ...
