"""What wgpu-native can do and wgpu's Python layer cannot, or only slowly.

Reached through the library that wgpu has loaded, with the pointers its objects hold. Errors are
raised as those of wgpu: at once by calls that go through its own wrapper, and for the commands of a
pass when the encoder is finished.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.backends.webgpu.device.webgpu_types import (
    Buffer,
    Pass,
    Pipeline,
    WebGpuDevice,
)

Command = tuple[object, object, int, int, int]
"""A dispatch: its pipeline, its bindings, and how many workgroups it has along each axis."""


@cache
def _library() -> ModuleType:
    return import_module("wgpu.backends.wgpu_native._api")


def pointer(created: object) -> object:
    """What the library knows an object by; it has no public name."""
    return getattr(created, "_internal")  # noqa: B009


def command(pipeline: Pipeline, bindings: object, workgroups: tuple[int, int, int]) -> Command:
    """A dispatch, ready to be recorded."""
    return (pointer(pipeline), pointer(bindings), *workgroups)


def record(compute: Pass, commands: Sequence[Command]) -> None:
    """Record dispatches in order; four times as fast as by the methods of a pass."""
    library = _library()
    at, nothing = pointer(compute), library.ffi.NULL
    set_pipeline = library.lib.wgpuComputePassEncoderSetPipeline
    set_bindings = library.lib.wgpuComputePassEncoderSetBindGroup
    dispatch = library.lib.wgpuComputePassEncoderDispatchWorkgroups
    current = None
    for pipeline, bindings, x, y, z in commands:
        if pipeline is not current:
            set_pipeline(at, pipeline)
            current = pipeline
        set_bindings(at, 0, bindings, 0, nothing)
        dispatch(at, x, y, z)


def submit(device: WebGpuDevice, commands: object) -> int:
    """Hand recorded commands to the device; the number of the submission, for `wait`."""
    library = _library()
    one = library.ffi.new("WGPUCommandBuffer[]", [pointer(commands)])
    return int(library.libf.wgpuQueueSubmitForIndex(pointer(device.queue), 1, one))


def wait(device: WebGpuDevice, submission: int) -> None:
    """Wait until a submission is done, whatever was submitted after it."""
    library = _library()
    number = library.ffi.new("WGPUSubmissionIndex *", submission)
    until_done = True
    library.libf.wgpuDevicePoll(pointer(device), until_done, number)


def is_busy(device: WebGpuDevice) -> bool:
    """Whether a submission is not done; does not wait."""
    library = _library()
    until_done = False
    is_empty = library.libf.wgpuDevicePoll(pointer(device), until_done, library.ffi.NULL)
    return not is_empty


def tick(device: WebGpuDevice) -> float:
    """Seconds of one tick of the adapter's clock."""
    return _library().libf.wgpuQueueGetTimestampPeriod(pointer(device.queue)) * 1e-9


def unchecked_module(device: WebGpuDevice, text: str) -> object:
    """A shader module that is trusted to stay in bounds."""
    library = _library()
    code = text.encode()
    words = library.ffi.new("char[]", code)
    source = library.ffi.new("WGPUShaderSourceWGSL *")
    source.chain.sType = library.lib.WGPUSType_ShaderSourceWGSL
    source.code.data, source.code.length = words, len(code)
    descriptor = library.ffi.new("WGPUShaderModuleDescriptor *")
    descriptor.nextInChain = library.ffi.cast("WGPUChainedStruct *", source)
    create = library.libf.wgpuDeviceCreateShaderModuleTrusted
    created = create(pointer(device), descriptor, library.lib.WGPUShaderRuntimeChecks_None)
    return library.GPUShaderModule("", created, device)


class MappedBuffer:
    """A buffer that host and device use in turns; the host asks for it and need not wait.

    wgpu's own mapping keeps a thread polling, which stands in the way of the next submission.
    """

    def __init__(self, buffer: Buffer, *, writes: bool, begins_here: bool) -> None:
        library = _library()
        self.buffer = buffer
        self._mode = library.lib.WGPUMapMode_Write if writes else library.lib.WGPUMapMode_Read
        self.status: int | None = library.lib.WGPUMapAsyncStatus_Success if begins_here else None

    @property
    def is_here(self) -> bool:
        """Whether the host may use it; polling and waiting for submissions bring it."""
        failed = self.status not in (None, _library().lib.WGPUMapAsyncStatus_Success)
        if failed:
            raise RuntimeError(f"a buffer could not be mapped (status {self.status})")
        return self.status is not None

    def ask(self) -> None:
        """Have it here once the submissions so far are done with it."""
        library = _library()
        self.status = None
        _asked[id(self)] = self
        info = library.ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = library.lib.WGPUCallbackMode_AllowProcessEvents
        info.callback = _callback()
        info.userdata1 = library.ffi.cast("void *", id(self))
        library.libf.wgpuBufferMapAsync(
            pointer(self.buffer), self._mode, 0, self.buffer.size, info[0]
        )

    def content(self) -> NDArray[np.uint8]:
        """Its bytes, until it is given away."""
        library = _library()
        if not self.is_here:
            raise RuntimeError("the device has the buffer")
        find = (
            library.libf.wgpuBufferGetMappedRange
            if self._mode == library.lib.WGPUMapMode_Write
            else library.libf.wgpuBufferGetConstMappedRange
        )
        at = find(pointer(self.buffer), 0, self.buffer.size)
        return np.frombuffer(library.ffi.buffer(at, self.buffer.size), np.uint8)

    def give(self) -> None:
        """Let the device have it; what `content` gave must not be used any more."""
        _library().libf.wgpuBufferUnmap(pointer(self.buffer))
        self.status = None


_asked: dict[int, MappedBuffer] = {}
"""Buffers that were asked for. The library may answer after nobody else knows of them."""


@cache
def _callback() -> object:
    """What the library calls, while it is polled, for each buffer that was asked for."""
    ffi = _library().ffi

    def on_mapped(status: int, _message: object, which: object, _nothing: object) -> None:
        _asked.pop(int(ffi.cast("uintptr_t", which))).status = status

    return ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", on_mapped)
