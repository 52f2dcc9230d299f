"""Devices of JAX as the registry opens them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
from jax.sharding import Mesh

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import Backend, Hosts, OpenDevice, Spread
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.device_problems import UnsupportedPrecision
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.memory_estimate import require_memory
from meganeura_runtime.backends.memory_roles import StepMemory
from meganeura_runtime.backends.xla.analysis.array_limits import require_countable
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device import nccl
from meganeura_runtime.backends.xla.device.devices import all_of_platform, of_platform
from meganeura_runtime.backends.xla.device.hosts import hosts_here
from meganeura_runtime.backends.xla.device.placement import AXIS, OneDevice, SeveralDevices
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.backends.xla.step_memory import memory_by_role

if TYPE_CHECKING:
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.support.tracing import Span


@dataclass(frozen=True)
class XlaDevice(OpenDevice):
    """A CPU or GPU that XLA compiles for, or several as one."""

    backend: Backend
    device: jax.Device
    """The first of the devices."""
    description: str
    short_name: str
    precision: ComputePrecision = ComputePrecision.F32
    placement: SeveralDevices | None = None
    """Sharding over several devices; `None` for one."""

    @property
    def hosts(self) -> Hosts:
        """Returns the processes that the devices belong to."""
        return hosts_here()

    def at(self, precision: ComputePrecision) -> "XlaDevice":
        """Returns the device in another precision; raises `ProblemError` for `tf32` on a CPU."""
        self.backend.require_precision(precision)
        if precision is ComputePrecision.TF32 and self.device.platform == "cpu":
            others = (ComputePrecision.F32, ComputePrecision.BF16)
            reason = "a CPU has no matrix units that round to TF32"
            raise ProblemError(UnsupportedPrecision("xla:cpu", precision, reason, others))
        shown = "" if precision is ComputePrecision.F32 else f", in {precision}"
        return replace(self, precision=precision, description=f"{self.description}{shown}")

    def open(self, graph: Graph) -> XlaSession:
        """Returns a session of the graph, whose step a thread begins to compile."""
        if self.device.platform == "cpu":
            require_memory(graph)
        return XlaSession(self.program(graph))

    def spread(self, spread: Spread) -> "XlaDevice":
        """Returns the first devices of its platform, counted over all hosts, as one device."""
        platform = self.device.platform
        there, hosts = all_of_platform(platform), self.hosts
        if spread.devices > len(there):
            text = f"{spread.devices} devices of the platform {platform} are asked for"
            raise DeviceError(f"{text}; JAX has {len(there)}")
        if hosts.count > 1 and spread.devices != len(there):
            text = f"{hosts.count} hosts have {len(there)} devices, and use all of them"
            raise DeviceError(f"{text}: --set devices={len(there)}")
        if self.device != of_platform(platform)[0]:
            text = f"several devices are named together, as `xla:{platform}`"
            raise DeviceError(f"{text}: `xla:{platform}:N` is one of them")
        if platform == "gpu":
            nccl.configure()
        mesh = Mesh(there[: spread.devices], (AXIS,))
        placement = SeveralDevices(mesh, spread.sharding, spread.rows)
        on = f" of {hosts.count} hosts" if hosts.count > 1 else ""
        how = f"{spread.devices} devices{on}, {spread.sharding}"
        return replace(self, description=f"{self.description}; {how}", placement=placement)

    def replicated(self, graph: Graph) -> tuple[str, ...]:
        """Returns, under fsdp, the names of arrays without an axis that the devices divide."""
        placement = self.placement
        if placement is None or placement.sharding is not DeviceSharding.FSDP:
            return ()
        persistent, _ = leaf_types(graph)
        return tuple(
            name for name, each in persistent.items() if not placement.gathered(name, each)
        )

    def memory(self, graph: Graph) -> StepMemory | None:
        """Returns the memory of a step on each device; compiles the step."""
        program = self.program(graph)
        placed = {**program.persistent, **program.fed}
        return memory_by_role(program.graph, program.compiled(), placed, program.copied_bytes)

    def profile(self, graph: Graph) -> "Profile":
        """Time each instruction by JAX's profiler."""
        from meganeura_runtime.backends.xla.timing.profile import profile_of

        return profile_of(self.device, self.program(graph), graph)

    def tracer(self, timeline: "Timeline", span: "Span") -> "Tracer":
        """Trace each instruction by JAX's profiler."""
        del span
        from meganeura_runtime.backends.xla.timing.trace import InstructionTracer

        return InstructionTracer(timeline)

    def program(self, graph: Graph) -> Program:
        """Returns the program of a graph; raises `LimitError` for an array that is too large."""
        found = Program.of(graph, self.precision, self.placement or OneDevice(self.device))
        if self.device.platform != "cpu":
            devices = 1 if self.placement is None else self.placement.mesh.size
            require_countable(found.graph, devices)
        return found
