"""A compiled model made of a graph; reading one needs none of what this imports."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb.container import Artefact


def compiled_model(name: str, graph: Graph, values: Mapping[str, Array]) -> Artefact:
    """The model with the plan of its graph for any adapter; raises `LimitError`."""
    return Artefact(name, graph, plan_graph(graph, PORTABLE), values)
