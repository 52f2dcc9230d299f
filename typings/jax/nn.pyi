from typing import Literal

from jax import Array

def dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float,
    is_causal: bool,
    local_window_size: tuple[int, int] | None,
    implementation: Literal["cudnn", "xla"],
) -> Array: ...
