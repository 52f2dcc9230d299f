"""What it costs to compute an element again instead of reading it from memory.

Costs are in loads: the time in which a device reads one element of a tensor too large for its
caches. On a GPU that is long against arithmetic (an H200 adds forty times meanwhile), so that
little is worth a place in memory that could be computed from what is there; on a CPU it is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import Cos, Div, Erf, Exp, Gather, Log, RandomBits, Sin, Sqrt, Tanh
from meganeura_runtime.backends.webgpu.codegen.lowering import leaf, movement
from meganeura_runtime.backends.webgpu.config.limits import Style

LOAD = 1.0
"""The unit: one element read from memory."""

_FREE = frozenset((*movement.OPS, *leaf.OPS))
_ROOTS = frozenset((Div, Sqrt))
_FUNCTIONS = frozenset((Exp, Log, Sin, Cos, Tanh, Erf))


@dataclass(frozen=True, slots=True)
class RecomputeCosts:
    """The costs of one style of device."""

    cached: float
    """A load of an element that its neighbours load too."""
    simple: float
    """An addition, a comparison and their like."""
    root: float
    """A division or a square root."""
    function: float
    """An exponential and its like."""
    random: float
    """A word of random bits."""
    launch: float
    """One more kernel."""

    def of(self, op: Op) -> float:
        """The cost of one element of an op, its operands at hand."""
        kind = type(op)
        if kind in _FREE:
            return 0.0
        if kind in _ROOTS:
            return self.root
        if kind in _FUNCTIONS:
            return self.function
        if kind is RandomBits:
            return self.random
        return LOAD if kind is Gather else self.simple


COSTS: Mapping[Style, RecomputeCosts] = {
    Style.GPU: RecomputeCosts(0.1, 0.03, 0.15, 0.4, 2.0, 400_000),
    Style.SOFTWARE_VULKAN: RecomputeCosts(1.0, 0.25, 1.0, 3.0, 16.0, 5_000),
}


def is_free(op: Op) -> bool:
    """Whether an op only says where the elements of others are read."""
    return type(op) in _FREE


@dataclass(frozen=True, slots=True)
class Uses:
    """How many elements a value has, and how many are read of it; infinitely many: store it."""

    elements: int
    reads: float

    def worth_storing(self, cost: float, costs: RecomputeCosts) -> bool:
        """Whether one more kernel that stores the value is cheaper than computing it each time."""
        if self.reads == inf:
            return True
        again = self.reads * cost
        once = self.elements * (cost + LOAD) + self.reads * LOAD + costs.launch
        return again > once
