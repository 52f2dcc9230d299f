"""The ops that are read, each with what it is in the language.

An op that is not here but that ONNX defines by a function of others is read as that function.
"""

from collections.abc import Mapping

from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.ops import (
    activations,
    attention,
    elementwise,
    movement,
    norms,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    resizing,
    scatters,
)
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

TABLE: Mapping[str, Entry] = {
    **activations.OPS,
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
    **resizing.OPS,
}
"""The translation of each op, by its name."""
CONTRIBUTED = "com.microsoft"
"""The domain of the ops of ONNX Runtime that ONNX lacks."""


def contributed(domain: str, op: str) -> Entry:
    """The translation of an op of another domain; raises `UnsupportedNodeError` if none is."""
    if domain != CONTRIBUTED:
        raise UnsupportedNodeError(f"the domain `{domain[:80]}` is not read")
    entry = recurrent.CONTRIBUTED.get(op)
    if entry is None:
        known = ", ".join(f"`{each}`" for each in sorted(recurrent.CONTRIBUTED))
        raise UnsupportedNodeError(f"of the domain `{domain}` only {known} is read")
    return entry
