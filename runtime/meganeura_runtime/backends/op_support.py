"""Tables of the ops that a backend runs, lowers to others, or refuses."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph, Op
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_runtime.backends.device_problems import UnsupportedOp

ALL_OPS: tuple[type[Op], ...] = (*OPS, *FUSED_OPS)
"""Every op that a graph may contain when it is opened."""


@dataclass(frozen=True)
class OpSupport:
    """The support of a backend for each op. A fused op that is not named expands to primitives."""

    backend: str
    runs: AbstractSet[type[Op]]
    """Ops that it computes as they are."""
    rewrites: AbstractSet[type[Op]] = frozenset()
    """Ops that a pass of its own replaces by others."""

    def __post_init__(self) -> None:
        for op in self.runs & self.rewrites:
            raise ValueError(f"{self.backend} both runs and rewrites {op.__name__}")

    @property
    def lowers(self) -> frozenset[type[Op]]:
        """Ops that become others before anything runs."""
        expanded = (op for op in FUSED_OPS if op not in self.runs)
        return frozenset((*self.rewrites, *expanded))

    @property
    def refuses(self) -> frozenset[type[Op]]:
        """Primitives that it neither runs nor lowers."""
        return frozenset(OPS) - self.runs - self.rewrites

    def supported(self, graph: Graph) -> Graph:
        """The graph in ops that the backend runs or rewrites.

        Raises `ProblemError` with the first value whose op it refuses.
        """
        for value in graph.values:
            for body in value.op.bodies:
                self.supported(body.graph)
        expanded = expand_fused(graph, self.runs | self.rewrites)
        refused = self.refuses
        for value in expanded.values if refused else ():
            if type(value.op) in refused:
                raise ProblemError(
                    UnsupportedOp(
                        value.origin.span,
                        value.origin.path,
                        type(value.op).__name__,
                        self.backend,
                    )
                )
        return expanded
