"""The memory a step takes of an adapter, known before one is opened."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits
from meganeura_runtime.backends.webgpu.device.device import open_device
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

WEBGPU_DEFAULT = "webgpu-default"
"""The limits every implementation of WebGPU promises."""


@dataclass(frozen=True)
class StepMemory:
    """The sums over the buffers and dispatches of a step."""

    bytes: int
    """The bytes of all buffers."""
    largest_binding: int
    """Bytes of the largest slot that a kernel is bound to."""
    temporaries: int
    """Buffers for temporaries."""
    spread: int
    """Dispatches that one row of workgroups is too few for."""


def limits_named(name: str) -> DeviceLimits:
    """The limits of `webgpu-default`, of `adapter`, or of a device; raises `DeviceError`."""
    if name == WEBGPU_DEFAULT:
        return PORTABLE
    opened = open_device("wgpu" if name == "adapter" else name)
    try:
        return opened.limits
    finally:
        opened.close()


def step_memory(graph: Graph, limits: DeviceLimits) -> StepMemory:
    """Returns the memory of a step. Raises `LimitError`."""
    plan = plan_graph(graph, limits)
    return StepMemory(
        sum(buffer.bytes for buffer in plan.buffers),
        max(slot.bytes for one in plan.dispatches for slot in one.slots),
        sum(buffer.role is Role.TEMPORARIES for buffer in plan.buffers),
        sum(one.workgroups[1] > 1 for one in plan.dispatches),
    )
