"""A device of JAX as the registry hands it out."""

from dataclasses import dataclass

import jax

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import Backend, OpenDevice
from meganeura_runtime.backends.memory_estimate import require_memory
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.placement import OneDevice
from meganeura_runtime.backends.xla.session import XlaSession


@dataclass(frozen=True)
class XlaDevice(OpenDevice):
    """A CPU or GPU that XLA compiles for."""

    backend: Backend
    device: jax.Device
    description: str
    short_name: str
    precision: ComputePrecision = ComputePrecision.F32

    def open(self, graph: Graph) -> XlaSession:
        """A session of the graph, whose step a thread begins to compile."""
        if self.device.platform == "cpu":
            require_memory(graph)
        return XlaSession(self.program(graph))

    def program(self, graph: Graph) -> Program:
        """A graph for this device."""
        return Program.of(graph, self.precision, OneDevice(self.device))
