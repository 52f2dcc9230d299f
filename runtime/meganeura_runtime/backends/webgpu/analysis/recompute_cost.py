"""The cost of computing an element again instead of reading it from memory.

Costs are in loads: the time in which a device reads one element of a tensor too large for its
caches. On a GPU that is long against arithmetic (an H200 adds forty times meanwhile), so that
little is worth a place in memory that could be computed from what is there; on a CPU it is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import assert_never

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.traits import ElementCost
from meganeura_runtime.backends.webgpu.config.limits import Style

LOAD = 1.0
"""The unit: one element read from memory."""


@dataclass(frozen=True, slots=True)
class RecomputeCosts:
    """The costs of one style of device; those of an element are named as in `ElementCost`."""

    cached: float
    """A load of an element that its neighbours load too."""
    simple: float
    root: float
    transcendental: float
    launch: float
    """One more kernel."""

    def of(self, op: Op) -> float:
        """The cost of one element of an op, its operands at hand."""
        match op.element_cost:
            case ElementCost.FREE:
                return 0.0
            case ElementCost.SIMPLE:
                return self.simple
            case ElementCost.ROOT:
                return self.root
            case ElementCost.TRANSCENDENTAL:
                return self.transcendental
            case ElementCost.LOAD:
                return LOAD
            case _:
                assert_never(op.element_cost)


COSTS: Mapping[Style, RecomputeCosts] = {
    Style.GPU: RecomputeCosts(0.1, 0.03, 0.15, 0.4, 400_000),
    Style.SOFTWARE_VULKAN: RecomputeCosts(1.0, 0.25, 1.0, 3.0, 5_000),
}


def is_free(op: Op) -> bool:
    """True if an op only says where the elements of others are read."""
    return op.element_cost is ElementCost.FREE


@dataclass(frozen=True, slots=True)
class Uses:
    """The elements of a value, and the reads of it; infinitely many reads mean: store it."""

    elements: int
    reads: float

    def worth_storing(self, cost: float, costs: RecomputeCosts) -> bool:
        """True if one more kernel that stores the value is cheaper than computing it each time."""
        if self.reads == inf:
            return True
        again = self.reads * cost
        once = self.elements * (cost + LOAD) + self.reads * LOAD + costs.launch
        return again > once
