"""Options of the optimizer: on or off, and rules that are disabled.

The optimizer itself is loaded when it is used: most graphs are found in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, DeviceModel
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.optimizer_problems import GaveUp, MissingEngine, UnknownRule

if TYPE_CHECKING:
    from meganeura_dsl.transforms.egraph.optimized import Optimized
    from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode


@dataclass(frozen=True)
class RewriteOptions:
    """Options of rewriting: on or off, rules that are disabled, and the device."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()
    device: DeviceModel = DEFAULT_DEVICE

    def optimize(self, graph: Graph, mode: Mode) -> Optimized:
        """The graph optimized; raises `ProblemError` for an unknown rule, and for giving up."""
        from meganeura_dsl.support.installation import install_command
        from meganeura_dsl.transforms.egraph.encoding.egglog_engine import (
            VERSION,
            MissingEngineError,
        )
        from meganeura_dsl.transforms.egraph.optimize import optimize
        from meganeura_dsl.transforms.egraph.rules.rule_sets import rules_by_name
        from meganeura_dsl.transforms.egraph.saturate.saturation import OptimizerError

        known = rules_by_name()
        for name in self.disabled:
            if name not in known:
                raise ProblemError(UnknownRule(name, tuple(known)))
        try:
            return optimize(graph, mode=mode, device=self.device, disabled=self.disabled)
        except MissingEngineError as error:
            missing = MissingEngine(VERSION, error.installed, install_command("optimize"))
            raise ProblemError(missing) from error
        except OptimizerError as error:
            raise ProblemError(GaveUp(str(error))) from error
