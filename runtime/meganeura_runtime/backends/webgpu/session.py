"""The session on an adapter: everything is prepared once, and a step is one submission."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from weakref import ReferenceType, ref

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.backends.base import (
    NOTHING_SHARED,
    Outputs,
    Session,
    SessionError,
    Uploaded,
    foreign,
    known,
)
from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.memory_estimate import MemoryExceededError
from meganeura_runtime.backends.webgpu.device.device import Buffer, Device, Launch, Range
from meganeura_runtime.backends.webgpu.device.transfers import (
    Copies,
    Readback,
    ReadbackBuffers,
    StagingBuffer,
    StagingBuffers,
    from_bytes,
    to_bytes,
)
from meganeura_runtime.backends.webgpu.memory.memory_usage import memory_of_plan
from meganeura_runtime.backends.webgpu.plan import Plan, PlanTensor, Role, Slot

AHEAD = 3
"""Steps that may be handed to a device before the first of them is done.

So many keep it busy, and no more inputs and commands than theirs have to be held.
"""
MOST_KEPT = 1 << 20
"""Bytes of outputs that are copied for callers that still hold them when the next step begins."""
MOST_READ = 1 << 28
"""Bytes that are read at once, unless a single tensor has more."""


class WebGpuSession(Session):
    """A plan on a device.

    `step(feeds)` copies its inputs to the device each time. `upload(feeds)` does so once, and
    `step(uploaded)` may follow any number of times, with other steps between:

        with session.upload({"image": images}) as batch:
            outputs = session.step(batch)

    Outputs can be read after later steps too. Where they are larger than a megabyte, that is so
    only if their `request()` was called before the next step.
    """

    def __init__(self, plan: Plan, device: Device, *, checked: bool = False) -> None:
        """`checked` has every index of the kernels checked, whatever the device does otherwise."""
        super().__init__(_types(plan.parameters), _types(plan.inputs))
        self._checked = checked
        self.plan = plan
        self.device = device = device.checking if checked else device
        self.steps = 0
        self._new_kernels = device.compile(plan.kernels, checked=checked)
        self._tensors = {tensor.name: tensor for tensor in plan.parameters}
        self._allocated: list[Buffer] | None = None
        self._lent: dict[int, Buffer] = {}
        """Buffers of another session that are used in place of own ones, by their numbers."""
        self._launches: list[Launch] | None = None
        self._copies: Copies = []
        self._stages = StagingBuffers(plan, device)
        self._readbacks = ReadbackBuffers(
            device, {number: plan.buffers[number].bytes for number in plan.numbers(Role.OUTPUTS)}
        )
        self._running: deque[int] = deque()
        self._held: ReferenceType[_Fetched] | None = None

    @property
    def ahead(self) -> int:
        """The number of steps that keeps the device busy while the host prepares the next."""
        return AHEAD

    @property
    def is_busy(self) -> bool:
        """True if a submission is not done."""
        return bool(self._running) and self.device.is_busy

    @property
    def kernels(self) -> int:
        """The number of kernels that no other session of the device has."""
        return self._new_kernels

    def ready(self) -> None:
        """Wait until all kernels are compiled, and bind them to memory."""
        self.launches()

    def wait(self) -> None:
        """Wait for the device: four bytes are read after all steps."""
        if self._allocated:
            self.device.read(Range(self._allocated[0], 0, 4))

    def close(self) -> None:
        """Give the memory back; the outputs of the last step are read, as before another one."""
        self._last = None
        self._read_held()
        for number, buffer in enumerate(self._allocated or []):
            if number not in self._lent:
                self.device.free(buffer)
        self._allocated = []
        self._stages.free()
        self._readbacks.free()

    @property
    def _buffers(self) -> list[Buffer]:
        """The buffers of the plan, allocated when they are first needed."""
        if self._allocated is None:
            self._allocated = _allocated(self.plan, self.device, self._lent)
        return self._allocated

    def launches(self) -> list[Launch]:
        """The kernels of a step in the order in which they run, once they are compiled."""
        if self._launches is None:
            bound = [
                self.device.launch(
                    self.plan.kernels[dispatch.kernel],
                    [self._range(slot) for slot in dispatch.slots],
                    dispatch.workgroups,
                    checked=self._checked,
                )
                for dispatch in self.plan.dispatches
            ]
            self._launches = [bound[number] for number in self.plan.order]
            self._copies = [
                (self._range(c.source), self._range(c.target)) for c in self.plan.copies
            ]
        return self._launches

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states, many at once."""
        if self._missing:
            return super().persistent()
        found = {
            tensor.name: array
            for group in _groups(self.plan.parameters)
            for tensor, array in self._read_group(group)
        }
        return {name: found[name] for name in self.names}

    def _share(self, other: Session) -> None:
        if (
            not isinstance(other, WebGpuSession)
            or other.device is not self.device
            or self._allocated is not None
            or other.plan.parameters != self.plan.parameters
        ):
            raise SessionError(NOTHING_SHARED)
        theirs = other._buffers  # noqa: SLF001 - of this class
        self._lent = {number: theirs[number] for number in self.plan.numbers(Role.PARAMETERS)}
        # Steps follow each other, so what holds nothing between them serves both.
        for role in (Role.INPUTS, Role.TEMPORARIES):
            pairs = zip(self.plan.numbers(role), other.plan.numbers(role), strict=False)
            for own, lent in pairs:
                if self.plan.buffers[own].bytes <= other.plan.buffers[lent].bytes:
                    self._lent[own] = theirs[lent]

    def fetch(self, tensor: PlanTensor) -> Array:
        """A tensor's value once all steps submitted so far are done."""
        return from_bytes(self.device.read(self._range(tensor.slot)), tensor)

    def profile(self, before: int = 0) -> list[float]:
        """Run the kernels of a step on the inputs of the last one; the seconds each took.

        Parameters are updated as in a step, and as in the steps that run `before`.
        """
        return self.device.timed(self.launches(), before)

    def whole(self, role: Role) -> dict[int, Range]:
        """All of the buffers that are for a purpose, by their numbers."""
        return {
            number: Range(self._buffers[number], 0, self.plan.buffers[number].bytes)
            for number in self.plan.numbers(role)
        }

    def reuse(self, stage: StagingBuffer) -> None:
        """Take back inputs that were staged for no step."""
        self._stages.unused(stage)

    def _read_group(self, tensors: Sequence[PlanTensor]) -> Iterator[tuple[PlanTensor, Array]]:
        first, last = tensors[0].slot, tensors[-1].slot
        together = Range(self._buffers[first.buffer], first.offset, last.end - first.offset)
        content = self.device.read(together)
        for tensor in tensors:
            start = tensor.slot.offset - first.offset
            yield tensor, from_bytes(content[start : start + tensor.slot.bytes], tensor)

    def _range(self, slot: Slot) -> Range:
        return Range(self._buffers[slot.buffer], slot.offset, slot.bytes)

    def _put(self, name: str, array: Array) -> None:
        slot = self._tensors[name].slot
        content = to_bytes(array, slot.bytes)
        if name in self._missing and not content.view(np.uint32).any():
            return  # memory begins as zeros
        self.device.write(self._range(slot), content)

    def _clear(self, names: Sequence[str]) -> None:
        # On the device: to upload zeros would take longer than to read a prompt.
        self.device.clear([self._range(self._tensors[name].slot) for name in names])

    def _get(self, name: str) -> Array:
        return self.fetch(self._tensors[name])

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Resident(self, feeds)

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Staged(self, self._stages.filled(feeds))

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        return self._submitted(feeds, [])

    def _submitted(self, feeds: Mapping[str, Array] | Uploaded, links: Copies) -> Outputs:
        """One step, before which the inputs are copied, and then the links."""
        launches = self.launches()
        self._make_room()
        inputs, stage = self._copied(feeds)
        persistent = self._kept_outputs()
        before = [*([] if persistent is None else persistent.copies), *inputs, *links]
        has_loops = len(self.plan.order) > len(self.plan.dispatches)
        number = self.device.submit(launches, self._copies, before, in_parts=not has_loops)
        self._running.append(number)
        if stage is not None:
            self._stages.submitted(stage)
        if persistent is not None:
            persistent.submitted(number)
        self.steps += 1
        outputs = _Fetched(self)
        self._held = ref(outputs)
        return outputs

    def follow(self, feeds: Mapping[str, Array], links: Mapping[str, str]) -> Outputs:
        """Run a step some of whose inputs are copied from the outputs of the last one."""
        given = self._linked(feeds, links, _types(self.plan.outputs))
        outputs = {tensor.name: tensor.slot for tensor in self.plan.outputs}
        inputs = {tensor.name: tensor.slot for tensor in self.plan.inputs}
        self._last = self._submitted(
            given,
            [(self._range(outputs[links[name]]), self._range(inputs[name])) for name in links],
        )
        return self._last

    def arriving(self) -> Readback:
        """Memory of the host for the outputs of the last step, and the copies to it."""
        return Readback(self._readbacks, self.whole(Role.OUTPUTS))

    def _make_room(self) -> None:
        """Wait for the step before the last few, and take back what it no longer needs."""
        if len(self._running) >= AHEAD:
            self.device.wait(self._running.popleft())
        self._stages.collect()

    def _copied(self, feeds: Mapping[str, Array] | Uploaded) -> tuple[Copies, StagingBuffer | None]:
        """The copies a step begins with, and the stage they are from, if they are from one."""
        match feeds:
            case _Resident() if feeds.session is self:
                return feeds.copies, None
            case _Staged() if feeds.session is self:
                stage = feeds.taken()
            case Uploaded():
                raise foreign()
            case _:
                stage = self._stages.filled(feeds)
        targets, sources = self.whole(Role.INPUTS), stage.give()
        return [(sources[number], targets[number]) for number in sources], stage

    def _kept_outputs(self) -> Readback | None:
        """The outputs of the last step on their way to the host, if they may still be read."""
        outputs = self._outputs_at_risk()
        if outputs is None:
            return None
        outputs.arriving = self.arriving()
        return outputs.arriving

    def _outputs_at_risk(self) -> "_Fetched | None":
        """The outputs of the last step, if they are to be kept for who still holds them.

        Those of another thread are kept however many: it cannot read them before this one's step.
        """
        outputs = None if self._held is None else self._held()
        if outputs is None or not outputs.is_at_risk:
            return None
        is_large = self.plan.bytes_for(Role.OUTPUTS) > MOST_KEPT
        return None if is_large and outputs.thread == get_ident() else outputs

    def _read_held(self) -> None:
        """Bring the outputs of the last step to the host while the device still has them."""
        outputs = self._outputs_at_risk()
        if outputs is not None and self._allocated:
            with suppress(DeviceError):  # of a device that failed nothing can be read
                outputs.request()


class _Resident(Uploaded):
    """Inputs in their own buffers; a step begins by copying them to where its kernels read."""

    def __init__(self, session: WebGpuSession, feeds: Mapping[str, Array]) -> None:
        self.session: WebGpuSession | None = session
        targets = session.whole(Role.INPUTS)
        self._buffers = {number: session.device.allocate(at.size) for number, at in targets.items()}
        for tensor in session.plan.inputs:
            slot = tensor.slot
            at = Range(self._buffers[slot.buffer], slot.offset, slot.bytes)
            session.device.write(at, to_bytes(feeds[tensor.name], slot.bytes))
        self.copies: Copies = [
            (Range(self._buffers[number], 0, at.size), at) for number, at in targets.items()
        ]

    def close(self) -> None:
        """Free the memory, once the submitted steps are done."""
        if self.session is not None:
            for buffer in self._buffers.values():
                self.session.device.free(buffer)
        self.session, self.copies = None, []


class _Staged(Uploaded):
    """Inputs for one step, where the device will copy them from."""

    def __init__(self, session: WebGpuSession, stage: StagingBuffer) -> None:
        self.session: WebGpuSession | None = session
        self._stage = stage

    def taken(self) -> StagingBuffer:
        """The memory, which a step takes."""
        self.session = None
        return self._stage

    def close(self) -> None:
        """Let other inputs have the memory, unless a step took it."""
        if self.session is not None:
            self.session.reuse(self.taken())


class _Fetched(Outputs):
    """The outputs of one step, each read from the device when it is first asked for."""

    def __init__(self, session: WebGpuSession) -> None:
        self._session = session
        self._step = session.steps
        self.thread = get_ident()
        self._tensors = {tensor.name: tensor for tensor in session.plan.outputs}
        self._known: dict[str, Array] = {}
        self.arriving: Readback | None = None

    @property
    def is_at_risk(self) -> bool:
        """True if the next step overwrites something that was not read."""
        return self.arriving is None and len(self._known) < len(self._tensors)

    def request(self) -> None:
        """Have them copied to the host right after their step."""
        with self._session.guard.alone():
            if self.is_at_risk:
                self._check_is_there(next(iter(self._tensors)))
                self.arriving = self._session.arriving()
                self.arriving.submitted(self._session.device.submit([], self.arriving.copies))

    def __getitem__(self, name: str) -> Array:
        known(name, _types(tuple(self._tensors.values())))
        if name not in self._known:
            with self._session.guard.alone():
                self._fetch(name)
        return self._known[name].copy()  # the next step may be fed it

    def _fetch(self, name: str) -> None:
        """Bring an output to the host, or all of them if they are under way."""
        if name in self._known:
            return  # another thread has waited for it
        if self.arriving is not None:
            arrived = self.arriving.arrays(tuple(self._tensors.values()))
            self._known = {**arrived, **self._known}
        else:
            self._check_is_there(name)
            self._known[name] = self._session.fetch(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _check_is_there(self, name: str) -> None:
        if self._session.is_closed:
            raise SessionError(f"the session is closed, and output `{name}` was not read before")
        if self._session.steps != self._step:
            raise SessionError(
                f"output `{name}` of step {self._step} was overwritten by a later step, before "
                f"which it was neither read nor brought to the host by `request()`"
            )


def _allocated(plan: Plan, device: Device, lent: Mapping[int, Buffer]) -> list[Buffer]:
    """The buffers of a plan, or none of them; some are those of another session."""
    created: dict[int, Buffer] = {}
    try:
        for number, buffer in enumerate(plan.buffers):
            if number not in lent:
                created[number] = device.allocate(buffer.bytes)
    except OutOfMemoryError as error:
        for buffer in created.values():
            device.free(buffer)
        raise MemoryExceededError(memory_of_plan(plan), None) from error
    found = {**created, **lent}
    return [found[number] for number in range(len(plan.buffers))]


def _types(tensors: tuple[PlanTensor, ...]) -> dict[str, TensorType]:
    return {tensor.name: TensorType(tensor.dtype, tensor.shape) for tensor in tensors}


def _groups(tensors: Sequence[PlanTensor]) -> Iterator[list[PlanTensor]]:
    """Yields groups of tensors of one buffer that are small enough to be read at once."""
    group: list[PlanTensor] = []
    for tensor in sorted(tensors, key=lambda one: (one.slot.buffer, one.slot.offset)):
        if group and (
            tensor.slot.buffer != group[0].slot.buffer
            or tensor.slot.end - group[0].slot.offset > MOST_READ
        ):
            yield group
            group = []
        group.append(tensor)
    if group:
        yield group
