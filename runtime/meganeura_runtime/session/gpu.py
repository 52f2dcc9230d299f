"""The session on an adapter: everything is prepared once, and a step is one submission."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.evaluate import storage_type
from meganeura_dsl.graph.core import Array
from meganeura_dsl.shapes.tensor import DType, TensorType
from meganeura_runtime.device import Device, Range
from meganeura_runtime.plan.plan import Plan, Role, Slot, Tensor
from meganeura_runtime.session.base import (
    Outputs,
    Session,
    SessionError,
    Uploaded,
    foreign,
    known,
)

MOST_STAGED = 1 << 16
"""Bytes of inputs that are sooner copied together than written one by one."""


class GpuSession(Session):
    """A plan on a device.

    `step(feeds)` copies its inputs to the device each time. `upload(feeds)` does so once, and
    `step(uploaded)` may follow any number of times, with other steps between:

        with session.upload({"image": images}) as batch:
            outputs = session.step(batch)
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(_types(plan.parameters), _types(plan.inputs))
        self.plan = plan
        self.device = device
        self.steps = 0
        self._tensors = {tensor.name: tensor for tensor in plan.parameters}
        self._buffers = [device.allocate(buffer.bytes) for buffer in plan.buffers]
        self._launches = [
            device.launch(
                plan.kernels[dispatch.kernel],
                [self._range(slot) for slot in dispatch.slots],
                dispatch.workgroups,
            )
            for dispatch in plan.dispatches
        ]
        self._copies = [(self._range(one.source), self._range(one.target)) for one in plan.copies]
        # Small inputs of one buffer are put together here, and so written at once.
        self._staged = {
            number: np.zeros(buffer.bytes, np.uint8)
            for number, buffer in enumerate(plan.buffers)
            if buffer.role is Role.INPUTS and buffer.bytes <= MOST_STAGED
        }

    def close(self) -> None:
        """Give the memory back."""
        for buffer in self._buffers:
            self.device.free(buffer)
        self._buffers.clear()

    def fetch(self, tensor: Tensor) -> Array:
        """A tensor's value once all steps submitted so far are done."""
        return from_bytes(self.device.read(self._range(tensor.slot)), tensor)

    def profile(self, before: int = 0) -> list[float]:
        """Run the kernels of a step on the inputs of the last one; the seconds each took.

        Parameters are updated as in a step, and as in the steps that run `before`.
        """
        return self.device.timed(self._launches, before)

    def whole(self, number: int) -> Range:
        """All of a buffer of the plan."""
        return Range(self._buffers[number], 0, self.plan.buffers[number].bytes)

    def _range(self, slot: Slot) -> Range:
        return Range(self._buffers[slot.buffer], slot.offset, slot.bytes)

    def _put(self, name: str, array: Array) -> None:
        slot = self._tensors[name].slot
        self.device.write(self._range(slot), to_bytes(array, slot.bytes))

    def _get(self, name: str) -> Array:
        return self.fetch(self._tensors[name])

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Resident(self, feeds)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        if isinstance(feeds, Uploaded):
            if not isinstance(feeds, _Resident) or feeds.session is not self:
                raise foreign()
            self.device.submit(self._launches, self._copies, feeds.copies)
        else:
            self._write(feeds)
            self.device.submit(self._launches, self._copies)
        self.steps += 1
        return _Fetched(self)

    def _write(self, feeds: Mapping[str, Array]) -> None:
        for tensor in self.plan.inputs:
            slot = tensor.slot
            content = to_bytes(feeds[tensor.name], slot.bytes)
            if slot.buffer in self._staged:
                self._staged[slot.buffer][slot.offset : slot.end] = content
            else:
                self.device.write(self._range(slot), content)
        for number, staged in self._staged.items():
            self.device.write(Range(self._buffers[number], 0, staged.size), staged)


class _Resident(Uploaded):
    """Inputs in buffers of their own; a step begins by copying them to where its kernels read."""

    def __init__(self, session: GpuSession, feeds: Mapping[str, Array]) -> None:
        self.session: GpuSession | None = session
        plan, device = session.plan, session.device
        self._buffers = {
            number: device.allocate(buffer.bytes)
            for number, buffer in enumerate(plan.buffers)
            if buffer.role is Role.INPUTS
        }
        for tensor in plan.inputs:
            slot = tensor.slot
            at = Range(self._buffers[slot.buffer], slot.offset, slot.bytes)
            device.write(at, to_bytes(feeds[tensor.name], slot.bytes))
        self.copies = [
            (Range(buffer, 0, size), session.whole(number))
            for number, buffer in self._buffers.items()
            for size in (plan.buffers[number].bytes,)
        ]

    def close(self) -> None:
        """Give the memory back, once the steps that were handed to the device are done."""
        if self.session is not None:
            for buffer in self._buffers.values():
                self.session.device.free(buffer)
        self.session, self.copies = None, []


class _Fetched(Outputs):
    """The outputs of one step, each read from the device when it is first asked for."""

    def __init__(self, session: GpuSession) -> None:
        self._session = session
        self._step = session.steps
        self._tensors = {tensor.name: tensor for tensor in session.plan.outputs}
        self._known: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._known:
            known(name, _types(tuple(self._tensors.values())))
            if self._session.steps != self._step:
                raise SessionError(
                    f"output `{name}` of step {self._step} was overwritten by a later step"
                )
            self._known[name] = self._session.fetch(self._tensors[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _types(tensors: tuple[Tensor, ...]) -> dict[str, TensorType]:
    return {tensor.name: TensorType(tensor.dtype, tensor.shape) for tensor in tensors}


def to_bytes(array: Array, size: int) -> NDArray[np.uint8]:
    """An array as it lies in a buffer: bools as words, and the end filled to whole words."""
    stored = array.astype(np.uint32) if array.dtype == np.bool_ else array
    content = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    return np.pad(content, (0, size - content.size)) if content.size < size else content


def from_bytes(content: NDArray[np.uint8], tensor: Tensor) -> Array:
    """What lies in a buffer, as an array."""
    count = int(np.prod(tensor.shape, dtype=np.int64))
    if tensor.dtype is DType.BOOL:
        return content.view(np.uint32)[:count].reshape(tensor.shape) != 0
    return content.view(storage_type(tensor.dtype))[:count].reshape(tensor.shape)
