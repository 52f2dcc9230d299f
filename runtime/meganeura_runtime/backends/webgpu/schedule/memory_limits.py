"""The bytes of values in memory, and those that do not fit an adapter."""

from collections.abc import Container, Iterator

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.types import DType, size_in_bytes
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.analysis.half_storage import type_in_memory
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.memory.memory_planner import rounded
from meganeura_runtime.backends.webgpu.schedule.loop_schedule import LoopSchedule


def excesses_of(
    graph: Graph, stored: Container[int], limits: DeviceLimits, halves: Container[int] = ()
) -> Iterator[LimitError]:
    """Yields every value in memory that does not fit; `halves` are those that lie there in f16."""
    for value in graph.values:
        if value.type.dtype is DType.F16 and not limits.half_floats:
            yield LimitError(value, "shader-f16", "half floats", "absent")
    for value in graph.values:
        if value.id in stored:
            yield from _too_large(value, limits, halves)


def _too_large(value: Value, limits: DeviceLimits, halves: Container[int]) -> Iterator[LimitError]:
    """The limit a value exceeds, of those two the one that is easier to exceed."""
    needed = byte_size(value, halves)
    for name, allowed in (
        ("max-storage-buffer-binding-size", limits.binding_bytes),
        ("max-buffer-size", limits.buffer_bytes),
    ):
        if needed > allowed:
            yield LimitError(value, name, f"{needed} bytes", f"{allowed} bytes")
            return


def byte_size(value: Value, halves: Container[int] = ()) -> int:
    """The bytes a value takes in a buffer; bindings are multiples of four."""
    return rounded(size_in_bytes(type_in_memory(value, halves)), 4)


def excesses_of_loop(loop: LoopSchedule, limits: DeviceLimits) -> Iterator[LimitError]:
    """The same for the iterations of a loop."""
    yield from excesses_of(loop.graph, loop.stored, limits)
    for one in loop.kernels:
        if isinstance(one, LoopSchedule):
            yield from excesses_of_loop(one, limits)
