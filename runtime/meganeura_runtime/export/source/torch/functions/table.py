"""The functions that the language starts from, as PyTorch has them."""

from meganeura_runtime.export.source.functions.table import Table
from meganeura_runtime.export.source.torch.functions.creation import (
    constant_tensor,
    created,
    filled,
)
from meganeura_runtime.export.source.torch.functions.indexing import (
    one_hot,
    reversed_along,
    scatter_add,
    scatter_extreme,
)
from meganeura_runtime.export.source.torch.functions.movement import (
    concatenated,
    padded,
    repeated,
)
from meganeura_runtime.export.source.torch.functions.reductions import (
    cumulative,
    in_order,
    recurrence,
    top_k,
)
from meganeura_runtime.export.source.torch.functions.windows import convolved, window_max

TABLE: Table = {
    "sort": in_order,
    "argsort": in_order,
    "top_k": top_k,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), cumulative),
    "linear_recurrence": recurrence,
    "repeat": repeated,
    "concat": concatenated,
    "pad": padded,
    "reverse": reversed_along,
    "scatter_add": scatter_add,
    "scatter_max": scatter_extreme,
    "scatter_min": scatter_extreme,
    "one_hot": one_hot,
    **dict.fromkeys(("zeros", "ones", "random_uniform", "random_normal"), created),
    "full": filled,
    "constant": constant_tensor,
    "conv": convolved,
    "conv_transpose": convolved,
    "window_max": window_max,
}
