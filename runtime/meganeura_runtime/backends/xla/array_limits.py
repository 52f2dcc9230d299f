"""How many elements an array of a GPU may have: as 32 bits count, but for what is wrong before.

XLA and the libraries that it calls index arrays with 32 bits, some with signed ones. On an H200,
54 kinds of ops were compared with themselves on parts of arrays of 2.2 to 4.2 x 10⁹ elements:
cuDNN's gradient of attention alone is wrong, in rows of the gradients of q and k behind 2³¹.
"""

from math import prod

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.xla.attention_ops import LibraryAttentionGradient

MOST_ELEMENTS = 2**32 - 1
"""Of one array on one GPU."""
MOST_OF_ATTENTION = 2**31 - 1
"""Of one that cuDNN's gradient of attention gives or reads."""


def require_countable(graph: Graph, devices: int) -> None:
    """Raise `LimitError` for the first value of which each of so many GPUs holds too many elements.

    Each is taken to hold its share of a value, and the whole of what is persistent. The graph is in
    ops that are lowered; values of one round of a loop count too.
    """
    for value in graph.values:
        most, multiple = MOST_ELEMENTS, 1
        if isinstance(value.op, LibraryAttentionGradient):
            most, multiple = MOST_OF_ATTENTION, value.op.library.multiple
        for each in (value, *value.operands):
            held = _held(each, devices, multiple)
            if held > most:
                limit = "elements of an array on a GPU"
                raise LimitError(each, limit, f"{held:,} on each", f"{most:,}")
    for op in {value.op for value in graph.values if value.op.bodies}:
        for body in op.bodies:
            require_countable(body.graph, devices)


def _held(value: Value, devices: int, multiple: int) -> int:
    """The elements of a value, whose rows are padded to a multiple, on each of so many devices."""
    shape = concrete_shape(value.type.shape)
    if multiple > 1:
        *outer, rows, width = shape
        shape = (*outer, rows + -rows % multiple, width)
    return prod(shape) if _is_whole(value) else prod(shape) // devices


def _is_whole(value: Value) -> bool:
    return isinstance(value.op, Leaf) and value.op.is_persistent
