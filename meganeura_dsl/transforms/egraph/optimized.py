"""The result of an optimization, as data."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.egraph.rewrite_report import RewriteReport
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import SaturatedGraph


@dataclass(frozen=True, eq=False)
class Evidence:
    """The input of a certificate: the graph before, the e-graph, and the runs of loops' bodies."""

    before: Graph
    explored: Graph
    """The graph before with the bodies of its loops optimized."""
    saturated: SaturatedGraph
    bodies: tuple[tuple[Graph, "Optimized"], ...] = ()
    """The bodies of loops, each with its optimization."""


@dataclass(frozen=True)
class Optimized:
    """The optimized graph, how the parameters it adds are derived, and what was done.

    The outputs of `load` are named after the parameters of `graph` whose values they are. It is
    empty but in `infer` mode, and is best run in double precision.
    """

    graph: Graph
    load: Graph
    report: RewriteReport
    evidence: Evidence
