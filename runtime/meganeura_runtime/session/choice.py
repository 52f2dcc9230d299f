"""Which device runs a program, and why."""

from collections.abc import Callable
from dataclasses import dataclass

from meganeura_dsl.graph.core import Graph
from meganeura_runtime.device import Device, DeviceError, list_devices, open_device
from meganeura_runtime.plan.schedule import plan_graph
from meganeura_runtime.session.base import Session
from meganeura_runtime.session.cpu import CpuSession
from meganeura_runtime.session.gpu import GpuSession


@dataclass(frozen=True, slots=True)
class Choice:
    """A device that was chosen: how it is described to people, and how it runs a graph."""

    description: str
    open: Callable[[Graph], Session]
    device: Device | None = None
    """The adapter, or `None` for the CPU."""


def choose_device(selector: str = "auto") -> Choice:
    """`auto` takes a GPU if there is one and the CPU otherwise, whatever is wrong with drivers."""
    match selector:
        case "cpu":
            return Choice("cpu (as asked)", CpuSession)
        case "auto":
            return _automatic()
        case _:
            return _on(open_device(selector))


def _automatic() -> Choice:
    try:
        real = any(not info.is_software for info in list_devices())
    except DeviceError as error:
        return Choice(f"cpu ({error})", CpuSession)
    return _on(open_device("wgpu")) if real else Choice("cpu (no GPU was found)", CpuSession)


def _on(device: Device) -> Choice:
    def begin(graph: Graph) -> Session:
        return GpuSession(plan_graph(graph, device.limits, device.style), device)

    return Choice(str(device), begin, device)
