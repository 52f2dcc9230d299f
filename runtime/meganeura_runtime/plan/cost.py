"""What it costs to compute an element again instead of reading it from memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from meganeura_dsl.graph.core import Op
from meganeura_dsl.ops import (
    Cos,
    Div,
    Erf,
    Exp,
    Gather,
    Log,
    RandomBits,
    Sin,
    Sqrt,
    Tanh,
)
from meganeura_runtime.kernels.limits import Style
from meganeura_runtime.kernels.ops import leaf, movement

LOAD = 1.0
"""The unit: one element read from memory."""
SIMPLE = 0.25

_OPS: Mapping[type[Op], float] = {
    **dict.fromkeys(movement.OPS, 0.0),
    **dict.fromkeys(leaf.OPS, 0.0),
    **dict.fromkeys((Div, Sqrt, Gather), 1.0),
    **dict.fromkeys((Exp, Log, Sin, Cos, Tanh, Erf), 3.0),
    RandomBits: 16.0,
}


def op_cost(op: Op) -> float:
    """The cost of one element of an op, its operands at hand."""
    return _OPS.get(type(op), SIMPLE)


def launch_cost(style: Style) -> float:
    """The cost of one more kernel, in elements that could be read meanwhile."""
    return 400_000 if style is Style.GPU else 5_000


@dataclass(frozen=True, slots=True)
class Uses:
    """How many elements a value has, and how many are read of it; infinitely many: store it."""

    elements: int
    reads: float

    def worth_storing(self, cost: float, style: Style) -> bool:
        """Whether one more kernel that stores the value is cheaper than computing it each time."""
        if self.reads == inf:
            return True
        again = self.reads * cost
        once = self.elements * (cost + LOAD) + self.reads * LOAD + launch_cost(style)
        return again > once
