"""The backend `wgpu`: kernels in WGSL on every GPU that has a driver for Vulkan, Metal or D3D12."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from meganeura_runtime.backends.backend import Backend, Capabilities, DeviceRow, OpenDevice
from meganeura_runtime.backends.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meganeura_dsl.ir.cost_model import DeviceModel
    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.base import Session
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs
    from meganeura_runtime.backends.webgpu.device.device import Device
    from meganeura_runtime.support.tracing import Span


class WebGpuBackend(Backend):
    """One device for each adapter of wgpu."""

    name = "wgpu"
    title = "GPU"
    forms = ("wgpu", "wgpu:N")
    pattern = r"wgpu(:[0-9]{1,9})?"
    capabilities = Capabilities(opens_slowly=True, stages=("plan", "wgsl", "after:PASS"))

    def devices(self) -> Sequence[DeviceRow]:
        """Every adapter."""
        from meganeura_runtime.backends.webgpu.device import adapters

        return tuple(
            DeviceRow(each.selector, each.name, f"{each.kind}, {each.backend}, {each.driver}")
            for each in adapters.list_devices()
        )

    def require(self, name: str) -> None:
        """Raise `DeviceError` unless there is an adapter of that number, or any."""
        from meganeura_runtime.backends.webgpu.device import adapters

        infos = adapters.list_devices()
        adapters.require_any(infos)
        if name != self.name:
            adapters.numbered(name, infos)

    def preferred(self) -> str:
        """The best adapter, unless all are software."""
        from meganeura_runtime.backends.webgpu.device import adapters

        if all(info.is_software for info in adapters.list_devices()):
            raise DeviceError("no GPU was found")
        return self.name

    def ops(self) -> OpSupport:
        """Every op: what has no kernel becomes ops that have one."""
        from meganeura_runtime.backends.webgpu.passes.support import SUPPORT

        return SUPPORT

    def cost_model(self, name: str) -> DeviceModel:
        """The model of a GPU, or of a software adapter."""
        from meganeura_runtime.backends.webgpu.device.cost_models import cost_model

        return cost_model(name)

    def open(self, name: str, reason: str) -> OpenAdapter:
        """The adapter of that name."""
        del reason  # the device says why it is this adapter
        from meganeura_runtime.backends.webgpu.device.device import open_device

        return OpenAdapter.of(self, open_device(name))

    def emit(self, stage: str, graph: Graph, device: OpenDevice | None) -> str:
        """The plan, its kernels, or the graph after a pass; for an adapter, or for any."""
        from meganeura_runtime.backends.webgpu.emit import emit

        if isinstance(device, OpenAdapter):
            return emit(stage, graph, device.device, device.configs)
        return emit(stage, graph)


@dataclass(frozen=True)
class OpenAdapter(OpenDevice):
    """An open adapter, and what was found to be fastest on it."""

    backend: Backend
    device: Device
    configs: TunedConfigs
    description: str
    short_name: str
    note: str = ""

    @staticmethod
    def of(backend: Backend, device: Device) -> OpenAdapter:
        """An adapter whose kernels are configured as planned, not as tuned."""
        from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED

        return OpenAdapter(backend, device, UNTUNED, str(device), device.info.name)

    def tuned(self) -> OpenAdapter:
        """The same adapter with the configs that `meganeura tune` stored for it."""
        from meganeura_runtime.backends.webgpu.tuning_cache import tuned_configs

        configs, note = tuned_configs(self.device.info, self.device.limits)
        return replace(self, configs=configs, note=note)

    def open(self, graph: Graph) -> Session:
        """A session of the graph's plan, which is taken from the cache if it is there."""
        from meganeura_runtime.backends.webgpu.plan_cache import cached_plan
        from meganeura_runtime.backends.webgpu.session import WebGpuSession

        return WebGpuSession(cached_plan(graph, self.device, self.configs), self.device)

    def profile(self, graph: Graph) -> Profile:
        """Time each kernel by the adapter's clock; raises `ProblemError` where it has none."""
        from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
        from meganeura_runtime.backends.webgpu.timing.profile import profile_on

        device = self.device
        plan = plan_graph(graph, device.limits, device.style, self.configs)
        return profile_on(device, graph, plan)

    def tracer(self, timeline: Timeline, span: Span) -> Tracer:
        """Trace each kernel; raises `ProblemError` where the adapter has no clock."""
        from meganeura_runtime.backends.webgpu.timing.trace import AdapterTracer

        return AdapterTracer(timeline, self.device, span)
