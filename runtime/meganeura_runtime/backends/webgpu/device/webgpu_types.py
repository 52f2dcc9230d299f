"""The part of the WebGPU API that is used, as types: its Python layers have none of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Buffer(Protocol):
    """Memory of the device."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def destroy(self) -> None:
        """Give it back."""
        ...


class Pipeline(Protocol):
    """A compiled kernel."""

    def get_bind_group_layout(self, index: int) -> object: ...


class Pass(Protocol):
    """Dispatches being recorded."""

    def set_pipeline(self, pipeline: Pipeline) -> None: ...
    def end(self) -> None: ...


class Encoder(Protocol):
    """Commands being recorded."""

    def begin_compute_pass(self, *, timestamp_writes: Mapping[str, object] = ...) -> Pass: ...
    def resolve_query_set(
        self, queries: object, first: int, count: int, target: Buffer, offset: int
    ) -> None: ...
    def copy_buffer_to_buffer(
        self, source: Buffer, at: int, target: Buffer, to: int, size: int
    ) -> None: ...
    def clear_buffer(self, buffer: Buffer, offset: int, size: int) -> None: ...
    def finish(self) -> object: ...


class Queue(Protocol):
    """The queue to which commands and data are sent."""

    def write_buffer(self, buffer: Buffer, offset: int, data: NDArray[np.uint8]) -> None: ...
    def read_buffer(self, buffer: Buffer, offset: int, size: int) -> memoryview: ...
    def submit(self, commands: Sequence[object]) -> None: ...


class WebGpuDevice(Protocol):
    """An open adapter."""

    @property
    def queue(self) -> Queue: ...
    def create_buffer(self, *, size: int, usage: int, mapped_at_creation: bool = ...) -> Buffer: ...
    def create_shader_module(self, *, code: str) -> object: ...
    def create_compute_pipeline(
        self, *, layout: str, compute: Mapping[str, object]
    ) -> Pipeline: ...
    def create_bind_group(self, *, layout: object, entries: Sequence[object]) -> object: ...
    def create_command_encoder(self) -> Encoder: ...
    def create_query_set(self, *, type: str, count: int) -> object: ...  # noqa: A002 its name there
    def destroy(self) -> None: ...


class Adapter(Protocol):
    """A GPU, or software Vulkan."""

    @property
    def info(self) -> Mapping[str, str]: ...
    @property
    def features(self) -> Collection[str]: ...
    @property
    def limits(self) -> Mapping[str, int]: ...
    def request_device_sync(
        self, *, required_features: Sequence[str], required_limits: Mapping[str, int]
    ) -> WebGpuDevice: ...


def pointer(created: object) -> object:
    """Returns what a library knows an object by; it has no public name."""
    return getattr(created, "_internal")  # noqa: B009
