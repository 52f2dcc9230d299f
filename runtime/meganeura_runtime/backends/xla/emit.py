"""What `meganeura build` prints of a graph: the step in StableHLO, and the floats of its values."""

from collections.abc import Iterator

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.xla.analysis.numerics import Numerics
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import OneDevice
from meganeura_runtime.backends.xla.open_device import XlaDevice


def emit(stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision) -> str:
    """The text of a stage, for a device of JAX or for the CPU."""
    if isinstance(device, XlaDevice):
        program = device.program(graph)
    else:
        program = Program.of(graph, precision, OneDevice(named("xla:cpu")))
    return program.exported() if stage == "stablehlo" else "\n".join(_floats(program))


def _floats(program: Program) -> Iterator[str]:
    """Each value of floats, what it is computed in, and what it is stored in."""
    numerics = Numerics.of(program.graph, program.precision)
    rows = [("value", "computed in", "stored in", "place")]
    for value in program.graph.values:
        if value.type.dtype.is_float and not isinstance(value.op, Leaf):
            shown = f"%{value.id} {type(value.op).__name__} {value.type}"
            stored = str(numerics.stored[value.id])
            rows.append((shown, numerics.computed_in(value), stored, str(value.origin)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
