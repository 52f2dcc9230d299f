"""The ops that are read, each with what it is in the language.

An op that is not here but that ONNX defines by a function of others is read as that function.
"""

from collections.abc import Mapping

from meganeura_runtime.importing.onnx.ops import (
    attention,
    elementwise,
    movement,
    norms,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    scatters,
)
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

TABLE: Mapping[str, Entry] = {
    **attention.OPS,
    **elementwise.OPS,
    **movement.OPS,
    **norms.OPS,
    **products.OPS,
    **quantized.OPS,
    **recurrent.OPS,
    **reductions.OPS,
    **scatters.OPS,
    **pooling.OPS,
}
"""The translation of each op, by its name."""
