"""Stages that `meganeura build` prints: StableHLO, the graph after a pass, float types."""

from collections.abc import Iterator

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.xla.analysis.numerics import Numerics
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.device.devices import named
from meganeura_runtime.backends.xla.device.placement import OneDevice
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.passes.pipeline import PASSES, PassTarget, after_each


def emit(stage: str, graph: Graph, device: OpenDevice | None, precision: ComputePrecision) -> str:
    """Returns the text of a stage, for a device of JAX or for the CPU.

    Raises `ValueError` for a pass that does not exist, or does not run for this graph there.
    """
    kind, _, name = stage.partition(":")
    if kind == "after":
        platform = device.device.platform if isinstance(device, XlaDevice) else "cpu"
        return _after(name, graph, PassTarget(precision, platform))
    if isinstance(device, XlaDevice):
        program = device.program(graph)
    else:
        program = Program.of(graph, precision, OneDevice(named("xla:cpu")))
    return program.exported() if stage == "stablehlo" else "\n".join(_floats(program))


def _after(name: str, graph: Graph, target: PassTarget) -> str:
    by_name = {each.name: each for each in PASSES}
    if name not in by_name:
        raise ValueError(f"there is no pass `{name}`; there are, in order, {', '.join(by_name)}")
    for each, after in after_each(graph, target):
        if each.name == name:
            return format_graph(after)
    needs = by_name[name].needs
    step = "training" if graph.updates else "inference"
    here = f"{target.precision}, {target.platform}, {step}"
    raise ValueError(f"the pass `{name}` runs for {needs}; here is {here}")


def _floats(program: Program) -> Iterator[str]:
    """Yields, for each float value, the types that it is computed and stored in."""
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
