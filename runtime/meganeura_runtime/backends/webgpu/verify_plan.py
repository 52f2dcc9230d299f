"""Verifies that a plan that was read can be run, as far as that needs no graph.

Every number in it is a place, and every place has to be there. What the kernels compute is not
checked; that they stay within what they are bound to is for the device to see to, which compiles
those of others with checked bounds.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.memory.memory_planner import rounded
from meganeura_runtime.backends.webgpu.plan import Dispatch, Plan, PlanError, PlanTensor, Role, Slot
from meganeura_runtime.io.tensors.shape_mismatch import claimed_elements

BINDING = re.compile(r"@binding\((\d{1,3})\) var<storage, (read|read_write)>")
"""The declaration of a binding in a kernel, as ours are written."""
MOST_LAUNCHES = 1 << 22
"""Launches of a step, those of all iterations of loops counted."""
WORD = 4
"""Alignment in bytes of offsets and sizes in buffers."""


def verify_plan(plan: Plan, limits: DeviceLimits) -> None:
    """Raise `PlanError` for a place that is not there, or for what the limits do not allow.

    Also for dispatches that leave something unwritten that is read later.
    """
    for number, buffer in enumerate(plan.buffers):
        _require(buffer.bytes >= 0, f"buffer {number} has {buffer.bytes} bytes")
    for slot in _slots(plan):
        _verify_slot(plan, slot, limits)
    _verify_sizes(plan, limits)
    for role, tensors in (
        (Role.INPUTS, plan.inputs),
        (Role.PARAMETERS, plan.parameters),
        (Role.OUTPUTS, plan.outputs),
    ):
        _verify_tensors(plan, tensors, role)
    bindings = [_bindings(number, text) for number, text in enumerate(plan.kernels)]
    for dispatch in plan.dispatches:
        _verify_dispatch(dispatch, bindings, limits)
    _verify_loops(plan)
    _verify_flow(plan, bindings)


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - what is required
    if not holds:
        raise PlanError(otherwise)


def _slots(plan: Plan) -> Iterator[Slot]:
    """Every range of a buffer that the plan speaks of."""
    for tensor in (*plan.inputs, *plan.parameters, *plan.outputs):
        yield tensor.slot
    for dispatch in plan.dispatches:
        yield from dispatch.slots
    for copy in plan.copies:
        yield from (copy.source, copy.target)


def _verify_slot(plan: Plan, slot: Slot, limits: DeviceLimits) -> None:
    position = f"{slot.offset}+{slot.bytes} of buffer {slot.buffer}"
    _require(0 <= slot.buffer < len(plan.buffers), f"{position} is in none of its buffers")
    inside = min(slot.offset, slot.bytes) >= 0 and slot.end <= plan.buffers[slot.buffer].bytes
    _require(inside, f"{position} is not in that buffer")
    aligned = slot.offset % limits.offset_alignment == 0 and slot.bytes % WORD == 0
    _require(aligned, f"{position} begins or ends between words")
    bindable = slot.bytes <= limits.binding_bytes
    _require(bindable, f"{position} is more than an adapter binds")


def _verify_sizes(plan: Plan, limits: DeviceLimits) -> None:
    """Buffers end where the last of their ranges does: nobody is made to allocate more."""
    ends = [0] * len(plan.buffers)
    for slot in _slots(plan):
        ends[slot.buffer] = max(ends[slot.buffer], slot.end)
    for number, (buffer, end) in enumerate(zip(plan.buffers, ends, strict=True)):
        text = f"buffer {number} has {buffer.bytes} bytes, of which {end} are used"
        _require(buffer.bytes <= rounded(end, limits.offset_alignment), text)
        fits = buffer.bytes <= limits.buffer_bytes
        _require(fits, f"buffer {number} is larger than an adapter allows")


def _verify_tensors(plan: Plan, tensors: Sequence[PlanTensor], role: Role) -> None:
    """Tensors of one role: each fills its range, and no two ranges overlap without being equal."""
    names = {tensor.name for tensor in tensors}
    _require(len(names) == len(tensors), f"two of its {role.value} have the same name")
    for tensor in tensors:
        try:
            size = rounded(claimed_elements(tensor.shape) * tensor.dtype.bytes, WORD)
        except ValueError as error:
            raise PlanError(f"`{tensor.name}` {error}") from None
        _require(tensor.slot.bytes == size, f"`{tensor}` takes {tensor.slot.bytes} bytes")
        of_role = plan.buffers[tensor.slot.buffer].role is role
        _require(of_role, f"`{tensor.name}` is not in a buffer of {role.value}")
    positions = sorted({(each.slot.buffer, each.slot.offset, each.slot.end) for each in tensors})
    for (buffer, _, end), (other, start, _) in pairwise(positions):
        apart = buffer != other or end <= start
        _require(apart, f"two of its {role.value} overlap in buffer {buffer}")


def _bindings(number: int, text: str) -> list[bool]:
    """Returns for each binding of a kernel True if it may be written."""
    _require(text.isascii() and "\0" not in text, f"kernel {number} is no text of ours")
    found = BINDING.findall(text)
    positions = [int(position) for position, _ in found]
    _require(positions == list(range(len(found))), f"kernel {number} does not number its bindings")
    return [access == "read_write" for _, access in found]


def _verify_dispatch(
    dispatch: Dispatch, bindings: Sequence[Sequence[bool]], limits: DeviceLimits
) -> None:
    kernel = dispatch.kernel
    _require(0 <= kernel < len(bindings), f"there is no kernel {kernel}")
    bound = len(dispatch.slots)
    text = f"kernel {kernel} has {len(bindings[kernel])} bindings, and is bound to {bound} ranges"
    _require(len(bindings[kernel]) == bound, text)
    counted = all(1 <= count <= limits.workgroups for count in dispatch.workgroups)
    _require(counted, f"kernel {kernel} runs in {dispatch.workgroups} workgroups")
    allowed = bound <= limits.storage_buffers
    _require(allowed, f"kernel {kernel} is bound to more than an adapter allows")


def _verify_loops(plan: Plan) -> None:
    """Loops lie one behind or one inside of the other, and a step comes to an end."""
    around: list[tuple[int, int]] = []
    launches = len(plan.dispatches)
    for loop in sorted(plan.loops, key=lambda one: (one.first, -one.last)):
        text = f"{loop.rounds} iterations of the dispatches {loop.first} to {loop.last}"
        there = 0 <= loop.first < loop.last <= len(plan.dispatches) and loop.rounds >= 1
        _require(there, f"there cannot be {text}")
        while around and around[-1][0] <= loop.first:
            around.pop()
        end, times = around[-1] if around else (len(plan.dispatches), 1)
        _require(loop.last <= end, f"{text} overlap with those up to {end}")
        launches += (loop.last - loop.first) * times * (loop.rounds - 1)
        _require(launches <= MOST_LAUNCHES, f"{text} are more than {MOST_LAUNCHES:,} launches")
        around.append((loop.last, times * loop.rounds))


def _verify_flow(plan: Plan, bindings: Sequence[Sequence[bool]]) -> None:
    """Verifies that all that is read was written before, by the host or an earlier dispatch."""
    written = {tensor.slot for tensor in (*plan.inputs, *plan.parameters)}
    for number, dispatch in enumerate(plan.dispatches):
        pairs = list(zip(dispatch.slots, bindings[dispatch.kernel], strict=True))
        read = (slot for slot, writes in pairs if not writes)
        _require_written(read, written, f"dispatch {number} reads")
        written |= {slot for slot, writes in pairs if writes}
    _require_written((copy.source for copy in plan.copies), written, "a copy reads")
    _require_written((tensor.slot for tensor in plan.outputs), written, "an output is")


def _require_written(read: Iterable[Slot], written: set[Slot], what: str) -> None:
    for slot in read:
        _require(
            slot in written,
            f"{what} {slot.offset}+{slot.bytes} of buffer {slot.buffer}, which nothing wrote",
        )
