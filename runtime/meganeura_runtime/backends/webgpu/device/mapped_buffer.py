"""Buffers that host and device use in turns, by the C API that all implementations of WebGPU share.

Their Python layers map a buffer too, but wait for it, or keep a thread polling that stands in the
way of the next submission.
"""

from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.backends.webgpu.device.webgpu_types import Buffer, pointer


class MappedBuffer:
    """A buffer that host and device use in turns; the host asks for it and need not wait."""

    def __init__(
        self, library: ModuleType, buffer: Buffer, *, writes: bool, begins_here: bool
    ) -> None:
        self._library = library
        self.buffer = buffer
        self._mode = library.lib.WGPUMapMode_Write if writes else library.lib.WGPUMapMode_Read
        self.status: int | None = library.lib.WGPUMapAsyncStatus_Success if begins_here else None

    @property
    def is_here(self) -> bool:
        """True if the host may use it; polling and waiting for submissions bring it."""
        failed = self.status not in (None, self._library.lib.WGPUMapAsyncStatus_Success)
        if failed:
            raise RuntimeError(f"a buffer could not be mapped (status {self.status})")
        return self.status is not None

    def ask(self) -> None:
        """Ask for the buffer to be mapped once the submissions so far are done with it."""
        library = self._library
        self.status = None
        _asked[id(self)] = self
        info = library.ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = library.lib.WGPUCallbackMode_AllowProcessEvents
        info.callback = _callback(library)
        info.userdata1 = library.ffi.cast("void *", id(self))
        library.libf.wgpuBufferMapAsync(
            pointer(self.buffer), self._mode, 0, self.buffer.size, info[0]
        )

    def content(self) -> NDArray[np.uint8]:
        """Its bytes, until it is given away."""
        library = self._library
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
        self._library.libf.wgpuBufferUnmap(pointer(self.buffer))
        self.status = None


_asked: dict[int, MappedBuffer] = {}
"""Buffers that were asked for. The library may answer after nobody else knows of them."""


@cache
def _callback(library: ModuleType) -> object:
    """Returns the callback that the library runs, while polled, for each requested buffer."""
    ffi = library.ffi

    def on_mapped(status: int, _message: object, which: object, _nothing: object) -> None:
        _asked.pop(int(ffi.cast("uintptr_t", which))).status = status

    return ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", on_mapped)
