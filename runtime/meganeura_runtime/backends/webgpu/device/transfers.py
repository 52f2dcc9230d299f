"""Transfers between host and device while steps run: inputs ahead, outputs behind.

Nothing here waits for the device but `Readback.arrays`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from time import sleep
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.plan import Plan, PlanTensor, Role

Copies = list[tuple[Range, Range]]


class StagingBuffer:
    """Memory of the host, as large as all inputs, that the device copies from."""

    def __init__(self, device: Device, sizes: Mapping[int, int]) -> None:
        self._mapped = {number: device.outgoing(size) for number, size in sizes.items()}

    @property
    def is_here(self) -> bool:
        """True if no submission needs it any more."""
        return all(mapped.is_here for mapped in self._mapped.values())

    def fill(self, tensors: Sequence[PlanTensor], feeds: Mapping[str, Array]) -> None:
        """Copy the inputs."""
        contents = {number: mapped.content() for number, mapped in self._mapped.items()}
        for tensor in tensors:
            slot = tensor.slot
            contents[slot.buffer][slot.offset : slot.end] = to_bytes(feeds[tensor.name], slot.bytes)

    def give(self) -> dict[int, Range]:
        """Let the device have it: what each buffer of inputs is to be copied from."""
        for mapped in self._mapped.values():
            mapped.give()
        return {
            number: Range(mapped.buffer, 0, mapped.buffer.size)
            for number, mapped in self._mapped.items()
        }

    def ask(self) -> None:
        """Have it back once the submissions so far are done."""
        for mapped in self._mapped.values():
            mapped.ask()

    def free(self, device: Device) -> None:
        """Give the memory back."""
        for mapped in self._mapped.values():
            device.free(mapped.buffer)


class StagingBuffers:
    """Stages in turns: those the device is done with are filled again.

    There are as many as were needed at once, which is for the user to bound.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        self._device = device
        self._tensors = plan.inputs
        self._sizes = {
            number: buffer.bytes
            for number, buffer in enumerate(plan.buffers)
            if buffer.role is Role.INPUTS
        }
        self._here: list[StagingBuffer] = []
        self._there: deque[StagingBuffer] = deque()

    def filled(self, feeds: Mapping[str, Array]) -> StagingBuffer:
        """A stage that holds these inputs; any thread may ask for one."""
        try:
            stage = self._here.pop()
        except IndexError:
            stage = StagingBuffer(self._device, self._sizes)
        with self._device.span("copy inputs"):
            stage.fill([each for each in self._tensors if each.name in feeds], feeds)
        return stage

    def submitted(self, stage: StagingBuffer) -> None:
        """A submission that copies from a stage was made: have it back after that."""
        stage.ask()
        self._there.append(stage)

    def unused(self, stage: StagingBuffer) -> None:
        """A stage that no submission copied from, to be filled again."""
        self._here.append(stage)

    def collect(self) -> None:
        """Look which stages are back."""
        while self._there and self._there[0].is_here:
            self._here.append(self._there.popleft())

    def free(self) -> None:
        """Give the memory back."""
        for stage in (*self._here, *self._there):
            stage.free(self._device)
        self._here.clear()
        self._there.clear()


class ReadbackBuffers:
    """Memory of the host that outputs are copied to, used again once they are read."""

    def __init__(self, device: Device, sizes: Mapping[int, int]) -> None:
        self.device = device
        self._sizes = sizes
        self._idle: list[dict[int, MappedBuffer]] = []
        self._is_open = True

    def take(self) -> dict[int, MappedBuffer]:
        """Returns staging buffers, by number, that no copy uses."""
        if self._idle:
            return self._idle.pop()
        return {number: self.device.incoming(size) for number, size in self._sizes.items()}

    def give_back(self, mapped_buffers: dict[int, MappedBuffer]) -> None:
        """Have memory used again whose content was read."""
        if not self._is_open:
            _free(self.device, list(mapped_buffers.values()))
            return
        for mapped in mapped_buffers.values():
            mapped.give()
        self._idle.append(mapped_buffers)

    def free(self) -> None:
        """Give the memory back; what outputs are still on their way to follows when they are."""
        self._is_open = False
        for mapped_buffers in self._idle:
            _free(self.device, list(mapped_buffers.values()))
        self._idle.clear()


class Readback:
    """Outputs on their way to the host."""

    def __init__(self, pool: ReadbackBuffers, buffers: Mapping[int, Range]) -> None:
        self._device = pool.device
        self._pool = pool
        self._mapped = pool.take()
        self.copies: Copies = [
            (buffers[number], Range(mapped.buffer, 0, mapped.buffer.size))
            for number, mapped in self._mapped.items()
        ]
        self._submission = 0
        # Also where nobody reads them.
        self._free = finalize(self, _free, self._device, list(self._mapped.values()))

    def submitted(self, submission: int) -> None:
        """This submission makes the copies."""
        self._submission = submission
        for mapped in self._mapped.values():
            mapped.ask()

    def arrays(self, tensors: Sequence[PlanTensor]) -> dict[str, Array]:
        """The outputs, once their submission is done. Lets others have the memory."""
        self._device.wait(self._submission)
        while not all(mapped.is_here for mapped in self._mapped.values()):
            sleep(0)  # another thread has polled, and is about to run the callback
            self._device.wait(self._submission)
        contents = {number: mapped.content() for number, mapped in self._mapped.items()}
        found = {
            tensor.name: from_bytes(
                contents[tensor.slot.buffer][tensor.slot.offset : tensor.slot.end].copy(), tensor
            )
            for tensor in tensors
        }
        self._free.detach()
        self._pool.give_back(self._mapped)
        return found


def _free(device: Device, all_mapped: Sequence[MappedBuffer]) -> None:
    for mapped in all_mapped:
        device.free(mapped.buffer)


def to_bytes(array: Array, size: int) -> NDArray[np.uint8]:
    """An array as it lies in a buffer: bools as words, and the end filled to whole words."""
    stored = array.astype(np.uint32) if array.dtype == np.bool_ else array
    content = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    return np.pad(content, (0, size - content.size)) if content.size < size else content


def from_bytes(content: NDArray[np.uint8], tensor: PlanTensor) -> Array:
    """Returns the content of a buffer as an array."""
    count = int(np.prod(tensor.shape, dtype=np.int64))
    if tensor.dtype is DType.BOOL:
        return content.view(np.uint32)[:count].reshape(tensor.shape) != 0
    return content.view(storage_type(tensor.dtype))[:count].reshape(tensor.shape)
