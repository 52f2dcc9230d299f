"""A compiled model made of a graph; reading one needs none of what this imports."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb.container import Artefact
from meganeura_runtime.export.mgb.training_form import TrainingForm


def compiled_model(
    name: str, graph: Graph, values: Mapping[str, Array], training: TrainingForm | None = None
) -> Artefact:
    """The model with the plan of its graph for any adapter; raises `LimitError`."""
    return Artefact(name, graph, portable_plan(graph), values, training=training)


def portable_plan(graph: Graph) -> Plan:
    """The plan of a graph for any adapter; raises `LimitError`."""
    return plan_graph(graph, PORTABLE)
