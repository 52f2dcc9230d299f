"""The functions that the language starts from and all systems write in one way."""

from collections.abc import Callable, Mapping

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.axes import expanded, inserted, rearranged
from meganeura_runtime.export.source.functions.creation import iota
from meganeura_runtime.export.source.functions.elementwise import (
    UNARY,
    chosen,
    converted,
    detached,
    limited,
    of_elements,
    unchanged,
)
from meganeura_runtime.export.source.functions.indexing import gathered, rolled
from meganeura_runtime.export.source.functions.reductions import argmax, reduced
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code

Table = Mapping[str, Callable[[Arguments], Code]]

SHARED: Table = {
    **dict.fromkeys(UNARY, of_elements),
    **dict.fromkeys(("maximum", "minimum"), limited),
    **dict.fromkeys(("sum", "mean", "max", "min", "variance", "any", "all"), reduced),
    **dict.fromkeys((each.value for each in DType), converted),
    "where": chosen,
    "stop_gradient": detached,
    "show": unchanged,
    **dict.fromkeys(("argmax", "argmin"), argmax),
    "rearrange": rearranged,
    "expand": expanded,
    "insert_axis": inserted,
    "roll": rolled,
    "gather": gathered,
    "iota": iota,
}


def builtin(
    table: Table, writer: BlockWriter, node: ast.Call, piped: ast.Expression | None
) -> Code:
    """A call of a function of `table`, or of one that all systems share."""
    function = table.get(node.callee) or SHARED.get(node.callee)
    if function is None or node.label is not None or node.path is not None:
        raise refuse(node, "no function is known that is like it")
    return function(Arguments(writer, node, piped))
