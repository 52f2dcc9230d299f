"""Kernels in WGSL on every GPU that has a driver for Vulkan, Metal or D3D12.

The backends `wgpu` and `dawn` are the same but for the library that runs the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import Backend, Capabilities, DeviceRow, OpenDevice
from meganeura_runtime.backends.errors import DeviceError

if TYPE_CHECKING:
    from meganeura_dsl.ir.cost_model import DeviceModel
    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.backends.backend import OpenDevice
    from meganeura_runtime.backends.memory_roles import StepMemory
    from meganeura_runtime.backends.op_support import OpSupport
    from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter


class WebGpuBackend(Backend):
    """One device for each adapter of wgpu-native."""

    name = "wgpu"
    title = "GPU"
    forms = ("wgpu", "wgpu:N")
    pattern = r"wgpu(:[0-9]{1,9})?"
    capabilities = Capabilities(
        plans_memory=True,
        opens_slowly=True,
        stages=("plan", "wgsl", "after:PASS"),
        portable_stages=("after:PASS",),
        only_f32="WebGPU reaches no matrix units, without which other floats are no faster",
    )

    def devices(self) -> Sequence[DeviceRow]:
        """Every adapter."""
        from meganeura_runtime.backends.webgpu.device import adapters

        return tuple(
            DeviceRow(each.selector, each.name, f"{each.kind}, {each.backend}, {each.driver}")
            for each in adapters.list_devices(adapters.api_of(self.name))
        )

    def require(self, name: str) -> None:
        """Raise `DeviceError` unless there is an adapter of that number, or any."""
        from meganeura_runtime.backends.webgpu.device import adapters

        infos = adapters.list_devices(adapters.api_of(self.name))
        adapters.require_any(infos, adapters.api_of(self.name))
        if name != self.name:
            adapters.numbered(name, infos)

    def preferred(self) -> str:
        """The best adapter, unless all are software."""
        from meganeura_runtime.backends.webgpu.device import adapters

        if all(info.is_software for info in adapters.list_devices(adapters.api_of(self.name))):
            raise DeviceError("no GPU was found")
        return self.name

    def ops(self) -> OpSupport:
        """Every op: what has no kernel becomes ops that have one."""
        from meganeura_runtime.backends.webgpu.passes.support import SUPPORT

        return replace(SUPPORT, backend=self.name)

    def cost_model(self, name: str) -> DeviceModel:
        """The model of a GPU, or of a software adapter."""
        from meganeura_runtime.backends.webgpu.device.cost_models import cost_model

        return cost_model(name)

    def open(self, name: str, reason: str) -> OpenAdapter:
        """The adapter of that name."""
        del reason  # the device says why it is this adapter
        from meganeura_runtime.backends.webgpu.device.device import open_device
        from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter

        return OpenAdapter.of(self, open_device(name))

    def memory(self, graph: Graph, device: OpenDevice | None) -> StepMemory:
        """The buffers of the step's plan for an adapter, or for the least that WebGPU promises."""
        from meganeura_runtime.backends.webgpu.open_adapter import memory_on

        return memory_on(graph, device)

    def emit(
        self, stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision
    ) -> str:
        """The plan, its kernels, or the graph after a pass; for an adapter, or for any."""
        from meganeura_runtime.backends.webgpu.emit import emit

        return emit(stage, graph, device, precision)


class DawnBackend(WebGpuBackend):
    """One device for each adapter of Dawn, where the extra `dawn` is installed."""

    name = "dawn"
    title = "GPU by Dawn"
    forms = ("dawn", "dawn:N")
    pattern = r"dawn(:[0-9]{1,9})?"
    capabilities = replace(
        WebGpuBackend.capabilities,
        plans_of=WebGpuBackend.name,
        precisions=(ComputePrecision.F32, ComputePrecision.F16),
        only_f32="the matrix units that WebGPU reaches multiply float16",
    )

    def preferred(self) -> str:
        """None: `auto` takes the same GPU by `wgpu`."""
        raise DeviceError("")
