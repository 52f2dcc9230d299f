"""How many elements an array of a GPU may have: as 32 bits count, where more were not measured.

XLA and the libraries that it calls index some arrays with 32 bits. In `bf16` products, their losses
and what lies between were measured with 3.3 x 10⁹ logits on an H200: logits, losses and gradients
are those of parts of a quarter of the rows. Other ops were not, so such steps are refused.
"""

from math import prod

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Broadcast, MatMul, ReduceMax, Reshape, StopGradient, Sum
from meganeura_dsl.ir.ops.fused.softmax import CrossEntropy
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.errors import LimitError

MOST_ELEMENTS = 2**31 - 1
"""Of one array on one GPU."""
MOST_MEASURED = 2**32 - 1
"""Of one that `MEASURED` ops give and read in `bf16`."""
MEASURED = (MatMul, CrossEntropy, Broadcast, Reshape, StopGradient, Sum, ReduceMax)
"""Beside what works element by element."""


def require_countable(graph: Graph, precision: ComputePrecision, devices: int) -> None:
    """Raise `LimitError` for the first value of which each of so many GPUs holds too many elements.

    Each is taken to hold its share of a value, and the whole of what is persistent. The graph is in
    ops that are lowered.
    """
    for value in graph.values:
        for each in (value, *value.operands):
            held, most = _held(each, devices), _most(value, precision)
            if held > most:
                limit = "elements of an array on a GPU"
                raise LimitError(each, limit, f"{held:,} on each", f"{most:,}")


def _held(value: Value, devices: int) -> int:
    elements = prod(concrete_shape(value.type.shape))
    return elements if _is_whole(value) else elements // devices


def _is_whole(value: Value) -> bool:
    return isinstance(value.op, Leaf) and value.op.is_persistent


def _most(value: Value, precision: ComputePrecision) -> int:
    is_measured = Trait.ELEMENTWISE in value.op.traits or isinstance(value.op, MEASURED)
    if precision is ComputePrecision.BF16 and is_measured:
        return MOST_MEASURED
    return MOST_ELEMENTS
