"""A device of JAX as the registry hands it out."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import Backend, OpenDevice
from meganeura_runtime.backends.device_problems import UnsupportedPrecision
from meganeura_runtime.backends.memory_estimate import require_memory
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.placement import OneDevice
from meganeura_runtime.backends.xla.session import XlaSession

if TYPE_CHECKING:
    from meganeura_runtime.backends.timing.profile import Profile
    from meganeura_runtime.backends.timing.timeline import Timeline
    from meganeura_runtime.backends.timing.tracer import Tracer
    from meganeura_runtime.support.tracing import Span


@dataclass(frozen=True)
class XlaDevice(OpenDevice):
    """A CPU or GPU that XLA compiles for."""

    backend: Backend
    device: jax.Device
    description: str
    short_name: str
    precision: ComputePrecision = ComputePrecision.F32

    def at(self, precision: ComputePrecision) -> "XlaDevice":
        """The same device; raises `ProblemError` for `tf32` on a CPU."""
        if precision is ComputePrecision.TF32 and self.device.platform == "cpu":
            others = (ComputePrecision.F32, ComputePrecision.BF16)
            reason = "a CPU has no matrix units that round to TF32"
            raise ProblemError(UnsupportedPrecision("xla:cpu", precision, reason, others))
        shown = "" if precision is ComputePrecision.F32 else f", in {precision}"
        return replace(self, precision=precision, description=f"{self.description}{shown}")

    def open(self, graph: Graph) -> XlaSession:
        """A session of the graph, whose step a thread begins to compile."""
        if self.device.platform == "cpu":
            require_memory(graph)
        return XlaSession(self.program(graph))

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
        """A graph for this device."""
        return Program.of(graph, self.precision, OneDevice(self.device))
