"""The size of a plan's buffers, before a device is asked for them."""

from meganeura_runtime.backends.memory_estimate import NAMED, MemoryEstimate, gigabytes
from meganeura_runtime.backends.webgpu.plan import Dispatch, Plan, Role, Slot


def memory_of_plan(plan: Plan) -> MemoryEstimate:
    """Returns the size of the buffers of a plan."""
    writers: dict[Slot, Dispatch] = {}
    for dispatch in plan.dispatches:
        for slot in dispatch.slots:
            if plan.buffers[slot.buffer].role is not Role.PARAMETERS:
                writers.setdefault(slot, dispatch)
    largest = sorted(writers, key=lambda slot: slot.bytes, reverse=True)[:NAMED]
    descriptions = tuple(
        f"{gigabytes(s.bytes)}: {writers[s].name} {writers[s].origin}" for s in largest
    )
    total = sum(buffer.bytes for buffer in plan.buffers)
    return MemoryEstimate(total, plan.bytes_for(Role.PARAMETERS), descriptions)
