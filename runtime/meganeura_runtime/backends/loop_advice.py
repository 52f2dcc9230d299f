"""Advice on steps of many small iterations, on a device that computes op by op."""

from meganeura_dsl.ir.graph import Graph, by_application
from meganeura_dsl.ir.ops.primitive.loop import Loop
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.registry import backend_of

MANY = 1000
"""Iterations of a step that are many for a device that calls each of their ops by itself."""


def iterations(graph: Graph) -> int:
    """The iterations of all loops of a graph, those within iterations included."""
    count = 0
    for results in by_application(graph.values):
        op = results[0].op
        if isinstance(op, Loop):
            count += int(str(op.iterations)) * (1 + iterations(op.body.graph))
    return count


def other_device(graph: Graph, chosen: OpenDevice) -> str:
    """A line about the device `xla`, where it is installed and would spare most of the time."""
    if chosen.backend.name != "cpu" or not backend_of("xla").is_installed:
        return ""
    count = iterations(graph)
    if count < MANY:
        return ""
    return (
        f"scans: a step has {count:,} iterations, of which this device calls every op by itself; "
        "`--device xla`, which is installed, compiles them"
    )
