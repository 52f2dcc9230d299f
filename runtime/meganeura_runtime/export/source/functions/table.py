"""The functions that the language starts from, as PyTorch has them."""

from collections.abc import Callable

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.axes import expanded, inserted, rearranged
from meganeura_runtime.export.source.functions.creation import constant_tensor, created, filled
from meganeura_runtime.export.source.functions.elementwise import (
    UNARY,
    chosen,
    converted,
    detached,
    limited,
    of_elements,
    unchanged,
)
from meganeura_runtime.export.source.functions.indexing import (
    gathered,
    iota,
    one_hot,
    reversed_along,
    rolled,
    scatter_add,
    scatter_extreme,
)
from meganeura_runtime.export.source.functions.movement import joined, padded, repeated
from meganeura_runtime.export.source.functions.reductions import (
    argmax,
    cumulative,
    in_order,
    recurrence,
    reduced,
    top_k,
)
from meganeura_runtime.export.source.functions.windows import convolved, window_max
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code

TABLE: dict[str, Callable[[Arguments], Code]] = {
    **dict.fromkeys(UNARY, of_elements),
    **dict.fromkeys(("maximum", "minimum"), limited),
    **dict.fromkeys(("sum", "mean", "max", "min", "variance", "any", "all"), reduced),
    **dict.fromkeys((each.value for each in DType), converted),
    "where": chosen,
    "stop_gradient": detached,
    "show": unchanged,
    **dict.fromkeys(("argmax", "argmin"), argmax),
    "sort": in_order,
    "argsort": in_order,
    "top_k": top_k,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), cumulative),
    "linear_recurrence": recurrence,
    "rearrange": rearranged,
    "expand": expanded,
    "insert_axis": inserted,
    "repeat": repeated,
    "concat": joined,
    "pad": padded,
    "reverse": reversed_along,
    "roll": rolled,
    "gather": gathered,
    "scatter_add": scatter_add,
    "scatter_max": scatter_extreme,
    "scatter_min": scatter_extreme,
    "iota": iota,
    "one_hot": one_hot,
    **dict.fromkeys(("zeros", "ones", "random_uniform", "random_normal"), created),
    "full": filled,
    "constant": constant_tensor,
    "conv": convolved,
    "conv_transpose": convolved,
    "window_max": window_max,
}


def builtin(writer: BlockWriter, node: ast.Call, piped: ast.Expression | None) -> Code:
    """A call of a built-in function."""
    function = TABLE.get(node.callee)
    if function is None or node.label is not None or node.path is not None:
        raise refuse(node, "no function of PyTorch is known for it")
    return function(Arguments(writer, node, piped))
