"""Gradients of relus that read the sign of the relu's output instead of its input.

The gradient of relu(y) is zero where y <= 0, which is where relu(y) <= 0. Behind a norm y is not
stored, so that XLA computes it once more from the operands of the norm, in its own kernel, as
each kernel would read the vectors of the norm too. The output of the relu is in memory for the
gradient of the convolution that reads it.
"""

from collections.abc import Container

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Broadcast, Compare, Constant, Where
from meganeura_runtime.backends.xla.analysis.numerics import stored_in_bfloat16


def relu_backward_from_output(graph: Graph) -> Graph:
    """Returns the graph with gradients of relus that are stored in bfloat16 reading these."""
    return from_outputs(graph, stored_in_bfloat16(graph))


def from_outputs(graph: Graph, stored: Container[int]) -> Graph:
    """Returns the same for the relus whose ids `stored` contains."""
    relus = {value.operands[0].id: value for value in graph.values if _is_relu(value, stored)}
    if not relus:
        return graph
    build = Builder()
    built: dict[int, Value] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if isinstance(value.op, Where):
            relu = relus.get(value.operands[0].id)
            if relu is not None and relu.id in built and _is_zero(value.operands[1]):
                condition, zero, chosen = operands
                mask = build.add(Compare("le"), built[relu.id], condition.operands[1])
                operands = (mask, zero, chosen)
        built[value.id] = build.reapply(value, *operands)
        return built[value.id]

    return rebuild(graph, build, change)


def _is_relu(value: Value, stored: Container[int]) -> bool:
    """True for a stored value that is 0 where y <= 0, and else y."""
    if not isinstance(value.op, Where) or value.id not in stored:
        return False
    condition, zero, y = value.operands
    return (
        condition.op == Compare("le")
        and condition.operands[0] == y
        and _is_zero(condition.operands[1])
        and _is_zero(zero)
    )


def _is_zero(value: Value) -> bool:
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return isinstance(value.op, Constant) and value.op.value == 0
