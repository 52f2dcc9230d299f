"""An open adapter as a device of the registry."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import Backend, OpenDevice
from meganeura_runtime.backends.device_problems import UnsupportedPrecision
from meganeura_runtime.backends.memory_roles import StepMemory
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits
from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED, TunedConfigs
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan_cache import cached_memory, cached_plan
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.tuning_cache import tuned_configs
from meganeura_runtime.support.tracing import Span

if TYPE_CHECKING:
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer


NO_UNITS = "WebGPU reaches no matrix units of this adapter, without which f16 is no faster"


@dataclass(frozen=True)
class OpenAdapter(OpenDevice):
    """An open adapter, and what was found to be fastest on it."""

    backend: Backend
    device: Device
    configs: TunedConfigs
    description: str
    short_name: str
    note: str = ""
    precision: ComputePrecision = ComputePrecision.F32

    @staticmethod
    def of(backend: Backend, device: Device) -> "OpenAdapter":
        """An adapter whose kernels are configured as planned, not as tuned."""
        return OpenAdapter(backend, device, UNTUNED, str(device), device.info.name)

    def at(self, precision: ComputePrecision) -> "OpenAdapter":
        """The same adapter, whose contractions are computed in f16; raises `ProblemError`."""
        self.backend.require_precision(precision)
        if precision is self.precision:
            return self
        if self.device.matrix_units is None:
            raise ProblemError(
                UnsupportedPrecision(
                    self.device.info.selector, precision, NO_UNITS, (ComputePrecision.F32,)
                )
            )
        shown = f"{self.description}, in {precision}"
        return replace(self, precision=precision, description=shown)

    @property
    def limits(self) -> DeviceLimits:
        """The limits of the adapter, with matrix units if contractions are computed by them."""
        if self.precision is ComputePrecision.F32:
            return self.device.limits
        return replace(self.device.limits, matrix_units=self.device.matrix_units)

    def tuned(self) -> "OpenAdapter":
        """The same adapter with the configs that `meganeura tune` stored for it, all of f32."""
        if self.precision is not ComputePrecision.F32:
            return self
        configs, note = tuned_configs(self.device.info, self.device.limits)
        return replace(self, configs=configs, note=note)

    def open(self, graph: Graph) -> WebGpuSession:
        """A session of the graph's plan, which is taken from the cache if it is there."""
        plan = cached_plan(graph, self.device, self.configs, self.limits)
        return WebGpuSession(plan, self.device)

    def profile(self, graph: Graph) -> "Profile":
        """Time each kernel by the adapter's clock; raises `ProblemError` where it has none."""
        from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
        from meganeura_runtime.backends.webgpu.timing.profile import profile_on

        device = self.device
        plan = plan_graph(graph, self.limits, device.style, self.configs)
        return profile_on(device, graph, plan)

    def tracer(self, timeline: "Timeline", span: "Span") -> "Tracer":
        """Trace each kernel; raises `ProblemError` where the adapter has no clock."""
        from meganeura_runtime.backends.webgpu.timing.trace import AdapterTracer

        return AdapterTracer(timeline, self.device, span)


def memory_on(graph: Graph, device: OpenDevice | None) -> StepMemory:
    """Returns the memory of a step's plan on an open adapter, or on any. Raises `LimitError`."""
    if isinstance(device, OpenAdapter):
        return cached_memory(graph, device.device, device.configs, device.limits)

    from meganeura_runtime.backends.webgpu.schedule.compile import plan_memory

    return plan_memory(graph, PORTABLE)
