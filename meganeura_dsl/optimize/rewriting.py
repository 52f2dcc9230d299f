"""What a user says about the optimizer: whether it is on, and which rules it goes without.

The optimizer itself is loaded when it is used: most graphs are found in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.optimize.cost import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.optimize.problems import GaveUp, UnknownRule

if TYPE_CHECKING:
    from meganeura_dsl.graph.core import Graph
    from meganeura_dsl.optimize.optimizer import Optimized
    from meganeura_dsl.optimize.rules.all import Mode


@dataclass(frozen=True)
class Rewriting:
    """Whether graphs are optimized, without which rules, and for what device."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()
    device: DeviceModel = DEFAULT_DEVICE

    def optimize(self, graph: Graph, mode: Mode) -> Optimized:
        """The graph optimized; raises `ProblemError` for an unknown rule, and for giving up."""
        from meganeura_dsl.optimize.optimizer import optimize
        from meganeura_dsl.optimize.rules.all import told
        from meganeura_dsl.optimize.saturate import OptimizerError

        known = told()
        for name in self.disabled:
            if name not in known:
                raise ProblemError(UnknownRule(name, tuple(known)))
        try:
            return optimize(graph, mode=mode, device=self.device, disabled=self.disabled)
        except OptimizerError as error:
            raise ProblemError(GaveUp(str(error))) from error
