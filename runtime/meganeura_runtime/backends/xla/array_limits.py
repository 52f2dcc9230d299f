"""How many elements an array of a GPU may have: as many as 32 bits count.

XLA and the libraries that it calls index most arrays with 32 bits. A step of GPT-2 with 3.3 x 10⁹
logits on each H200 ran without a word, and its loss went from 10.9 to 13.3 with the first update,
more than the optimizer can move it. So such a step is refused.
"""

from math import prod

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.errors import LimitError

MOST_ELEMENTS = 2**31 - 1
"""Of one array on one GPU."""


def require_countable(graph: Graph, devices: int) -> None:
    """Raise `LimitError` for the first value of which each of so many GPUs holds too many elements.

    Each is taken to hold its share of a value, and the whole of what is persistent.
    """
    for value in graph.values:
        elements = prod(concrete_shape(value.type.shape))
        held = elements if _is_whole(value) else elements // devices
        if held > MOST_ELEMENTS:
            limit = "elements of an array on a GPU"
            raise LimitError(value, limit, f"{held:,} on each", f"{MOST_ELEMENTS:,}")


def _is_whole(value: Value) -> bool:
    return isinstance(value.op, Leaf) and value.op.is_persistent
