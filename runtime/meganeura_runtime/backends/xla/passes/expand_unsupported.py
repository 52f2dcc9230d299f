"""Expansion of ops that the lowering table does not have."""

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.transforms.loop_bodies import with_bodies
from meganeura_runtime.backends.xla.passes.support import SUPPORT


def expand_unsupported(graph: Graph) -> Graph:
    """Returns the graph in ops of the table, including bodies of loops.

    Raises `ProblemError` for an op that is not supported.
    """
    return with_bodies(SUPPORT.supported(graph), expand_unsupported)
