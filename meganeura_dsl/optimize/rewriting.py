"""What a user says about the optimizer: whether it is on, and which rules it goes without."""

from dataclasses import dataclass

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Graph
from meganeura_dsl.optimize.cost import DeviceModel
from meganeura_dsl.optimize.optimizer import DEFAULT_DEVICE, Optimized, optimize
from meganeura_dsl.optimize.problems import GaveUp, UnknownRule
from meganeura_dsl.optimize.rules.all import Mode, told
from meganeura_dsl.optimize.saturate import OptimizerError


@dataclass(frozen=True)
class Rewriting:
    """Whether graphs are optimized, without which rules, and for what device."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()
    device: DeviceModel = DEFAULT_DEVICE

    def optimize(self, graph: Graph, mode: Mode) -> Optimized:
        """The graph optimized; raises `ProblemError` for an unknown rule, and for giving up."""
        known = told()
        for name in self.disabled:
            if name not in known:
                raise ProblemError(UnknownRule(name, tuple(known)))
        try:
            return optimize(graph, mode=mode, device=self.device, disabled=self.disabled)
        except OptimizerError as error:
            raise ProblemError(GaveUp(str(error))) from error
