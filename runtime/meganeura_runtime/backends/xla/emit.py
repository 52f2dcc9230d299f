"""What `meganeura build` prints of a graph: the step in StableHLO."""

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device import XlaDevice
from meganeura_runtime.backends.xla.devices import named
from meganeura_runtime.backends.xla.placement import OneDevice


def stablehlo(graph: Graph, device: OpenDevice | None) -> str:
    """The step of a graph as `jax.export` writes it, for a device of JAX or for the CPU."""
    if isinstance(device, XlaDevice):
        program = device.program(graph)
    else:
        program = Program.of(graph, ComputePrecision.F32, OneDevice(named("xla:cpu")))
    return program.exported()
