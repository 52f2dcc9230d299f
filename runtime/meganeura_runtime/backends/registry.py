"""Which device runs a program, and why."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, GPU, SOFTWARE, DeviceModel
from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED, TunedConfigs
from meganeura_runtime.backends.webgpu.device.adapters import list_devices, numbered, require_any
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.device.device_prefetch import CPU, opened
from meganeura_runtime.backends.webgpu.plan_cache import cached_plan
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.tuning_cache import tuned_configs


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device that was chosen: how it is described to people, and how it runs a graph."""

    description: str
    open: Callable[[Graph], Session]
    device: Device | None = None
    """The adapter, or `None` for the CPU."""
    choices: TunedConfigs = UNTUNED
    """What was found to be fastest on it, and is used."""
    tuning: str = ""
    """A line about that for people, if there is anything to say."""


def choose_device(selector: str = "auto", *, tuned: bool = True) -> DeviceChoice:
    """`auto` takes a GPU if there is one and the CPU otherwise, whatever is wrong with drivers.

    Kernels are as they were tuned for the adapter, if they were.
    """
    found = opened(selector)
    if found.device is None:
        return DeviceChoice(f"cpu ({found.reason})", ReferenceSession)
    return _on(found.device, tuned=tuned)


def require_device(selector: str) -> None:
    """Raise `DeviceError` unless there is a device of that name; none is opened."""
    if selector in ("auto", CPU):
        return
    infos = list_devices()
    require_any(infos)
    if selector != "wgpu":
        numbered(selector, infos)


def model_of(selector: str) -> DeviceModel:
    """What the optimizer takes a device for, before it is opened.

    One that cannot be had is none of its concern: `require_device` and `choose_device` say so.
    """
    if selector == CPU:
        return DEFAULT_DEVICE
    try:
        infos = list_devices()
    except DeviceError:
        return DEFAULT_DEVICE
    meant = [info for info in infos if selector in ("auto", "wgpu", info.selector)]
    largest = [info.largest for info in meant if not info.is_software]
    if largest:
        return replace(GPU, largest=min(largest))
    return SOFTWARE if meant and selector != "auto" else DEFAULT_DEVICE


def _on(device: Device, *, tuned: bool) -> DeviceChoice:
    choices, tuning = tuned_configs(device.info, device.limits) if tuned else (UNTUNED, "")

    def begin(graph: Graph) -> Session:
        return WebGpuSession(cached_plan(graph, device, choices), device)

    return DeviceChoice(str(device), begin, device, choices, tuning)
