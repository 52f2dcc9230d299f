"""The ops that ONNX has a form for; others are refused."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Op
from meganeura_runtime.export.onnx.lowering import Lower
from meganeura_runtime.export.onnx.ops import (
    elementwise,
    indices,
    loops,
    movement,
    products,
    random,
)

TABLE: Mapping[type[Op], Lower] = {
    **elementwise.OPS,
    **indices.OPS,
    **loops.OPS,
    **movement.OPS,
    **products.OPS,
    **random.OPS,
}
"""The lowering of each op."""
