"""Limits of the number of elements of an array on a GPU, which is counted in 32 bits.

XLA and the libraries that it calls index arrays with 32 bits, some with signed ones. On an H200,
54 kinds of ops were compared with themselves on parts of arrays of 2.2 to 4.2 x 10⁹ elements:
cuDNN's gradient of attention alone is wrong, in rows of the gradients of q and k behind 2³¹. What
was not compared has that limit too.
"""

from math import prod

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.primitive.gather_scatter import ScatterExtreme
from meganeura_dsl.ir.ops.primitive.pool import MaxPoolSelect
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.xla.ops.attention import LibraryAttentionGradient

MOST_ELEMENTS = 2**32 - 1
"""Limit of an array on one GPU."""
MOST_SIGNED = 2**31 - 1
"""Limit of operands and results of ops that are wrong, or were not compared, beyond it."""


def require_countable(graph: Graph, devices: int) -> None:
    """Raise `LimitError` for the first value of which one of the GPUs holds too many elements.

    Each is taken to hold its share of a value, and the whole of what is persistent. The graph is in
    ops that are lowered; values in the body of a loop count too.
    """
    for value in graph.values:
        op = value.op
        most = MOST_SIGNED if _is_signed(op) else MOST_ELEMENTS
        multiple = op.library.multiple if isinstance(op, LibraryAttentionGradient) else 1
        for each in (value, *value.operands):
            held = _held(each, devices, multiple)
            if held > most:
                limit = "elements of an array on a GPU"
                raise LimitError(each, limit, f"{held:,} on each", f"{most:,}")
    for op in {value.op for value in graph.values if value.op.bodies}:
        for body in op.bodies:
            require_countable(body.graph, devices)


def _is_signed(op: Op) -> bool:
    match op:
        case LibraryAttentionGradient() | MaxPoolSelect() | ScatterExtreme():
            return True
        case Convolution(stride=stride):
            return any(step != 1 for step in stride)
        case _:
            return False


def _held(value: Value, devices: int, multiple: int) -> int:
    """Returns the elements of a value on each device, with its rows padded to a multiple."""
    shape = concrete_shape(value.type.shape)
    if multiple > 1:
        *outer, rows, width = shape
        shape = (*outer, rows + -rows % multiple, width)
    return prod(shape) if _is_whole(value) else prod(shape) // devices


def _is_whole(value: Value) -> bool:
    return isinstance(value.op, Leaf) and value.op.is_persistent
