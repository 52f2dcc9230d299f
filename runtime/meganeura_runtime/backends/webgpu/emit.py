"""Texts of `meganeura build` for a graph: the plan, its kernels, the graph after a pass."""

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, WITH_MATRICES, Target
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.passes.pipeline import PASSES, after_each, name_of
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph


def emit(stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision) -> str:
    """The text of a stage, for an adapter or for any.

    The graph after a pass is the one for any adapter. Raises `ValueError` for an unknown pass.
    """
    kind, _, name = stage.partition(":")
    if kind == "after":
        return _after(name, graph)
    if isinstance(device, OpenAdapter):
        plan = plan_graph(graph, device.limits, device.device.style, device.configs)
    else:
        is_f32 = precision is ComputePrecision.F32
        plan = plan_graph(graph, PORTABLE if is_f32 else WITH_MATRICES)
    return str(plan) if stage == "plan" else "\n\n".join(plan.kernels)


def _after(name: str, graph: Graph) -> str:
    names = [name_of(each) for each in PASSES]
    if name not in names:
        raise ValueError(f"there is no pass `{name}`; there are, in order, {', '.join(names)}")
    return format_graph(dict(after_each(graph, Target(PORTABLE)))[name])
