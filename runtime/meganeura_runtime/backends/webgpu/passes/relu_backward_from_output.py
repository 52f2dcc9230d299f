"""The gradient of relu from its output, which is positive exactly where the input was.

A gradient goes through relu(x) where x is above zero. There relu(x) is above zero too, and it is
in memory mostly, as the next layer reads it; x is not, if nothing else asks for it.
"""

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Compare, Where
from meganeura_dsl.ir.ops.primitive.broadcast import is_zero
from meganeura_runtime.backends.webgpu.config.limits import Target


def relu_backward_from_output(graph: Graph, _target: Target) -> Graph:
    """The graph with x <= 0 read as relu(x) <= 0 by all but relu, which NaN passes through."""
    build = Builder()
    cut_off: dict[int, Value] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if not isinstance(value.op, Where):
            return build.reapply(value, *operands)
        condition, if_true, if_false = operands
        if condition.id in cut_off:
            sign = build.add(condition.op, cut_off[condition.id], condition.operands[1])
            return build.add(value.op, sign, if_true, if_false)
        chosen = build.add(value.op, *operands)
        if _cuts_off(condition, if_true, if_false):
            cut_off[condition.id] = chosen
        return chosen

    return rebuild(graph, build, change)


def _cuts_off(condition: Value, if_true: Value, if_false: Value) -> bool:
    """True if a choice is 0 where x <= 0, and x elsewhere."""
    return (
        condition.op == Compare("le")
        and condition.operands == (if_false, if_true)
        and is_zero(if_true)
    )
