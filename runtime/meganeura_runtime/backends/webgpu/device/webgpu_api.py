"""The interface of an implementation of WebGPU: its Python layer, and what that layer cannot do.

Both implementations follow webgpu.h, so calls that the header has are written once. Errors are
raised as those of the Python layer: at once by calls that go through its own wrapper, and for the
commands of a pass when the encoder is finished.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import ClassVar

from meganeura_runtime.backends.webgpu.config.limits import MatrixUnits
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.device.webgpu_types import (
    Adapter,
    Buffer,
    Pass,
    Pipeline,
    WebGpuDevice,
    pointer,
)

Command = tuple[object, object, int, int, int]
"""A dispatch: its pipeline, its bindings, and how many workgroups it has along each axis."""


def command(pipeline: Pipeline, bindings: object, workgroups: tuple[int, int, int]) -> Command:
    """Returns a dispatch, ready to be recorded."""
    return (pointer(pipeline), pointer(bindings), *workgroups)


class WebGpuApi(ABC):
    """An implementation of WebGPU."""

    name: ClassVar[str]
    """The first part of its devices' names."""
    shuffles: ClassVar[str] = ""
    """The feature of subgroup operations, where kernels use them; empty where they do not."""
    matrix_features: ClassVar[Sequence[str]] = ()
    """The features that a device with matrix units is asked for, beside f16."""
    cure: ClassVar[str]
    """The cure for a missing adapter."""
    checks_modules: ClassVar[bool] = True
    """True if each module is checked or not; else all modules of a device are, or none."""

    @abstractmethod
    def module(self) -> ModuleType:
        """Returns the Python layer, with its native library loaded; raises `DeviceError`."""

    @abstractmethod
    def library(self) -> ModuleType:
        """Returns the module with the `ffi`, `lib` and `libf` of the native library."""

    def matrix_units(self, adapter: Adapter) -> MatrixUnits | None:
        """Returns the units of an adapter that multiply squares of f16, if WGSL reaches any."""
        del adapter
        return None

    @abstractmethod
    def request_device(
        self,
        adapter: Adapter,
        features: Sequence[str],
        limits: Mapping[str, int],
        *,
        checked: bool,
    ) -> WebGpuDevice:
        """Returns a device of an adapter; unless `checked`, modules may stay unchecked."""

    @abstractmethod
    def submit(self, device: WebGpuDevice, commands: object) -> int:
        """Hand recorded commands to the device; returns a number of the submission, for `wait`."""

    @abstractmethod
    def wait(self, device: WebGpuDevice, submission: int) -> None:
        """Wait until a submission is done, whatever was submitted after it."""

    @abstractmethod
    def is_busy(self, device: WebGpuDevice) -> bool:
        """Returns whether a submission is not done; does not wait."""

    @abstractmethod
    def tick(self, device: WebGpuDevice) -> float:
        """Returns the seconds of one tick of the adapter's clock."""

    @abstractmethod
    def unchecked_module(self, device: WebGpuDevice, text: str) -> object:
        """Returns a shader module that is trusted to stay in bounds.

        Where a device checks all modules or none, it is checked if the others are.
        """

    def record(self, compute: Pass, commands: Sequence[Command]) -> None:
        """Record dispatches in order; four times as fast as by the methods of a pass."""
        library = self.library()
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

    def mapped(self, buffer: Buffer, *, writes: bool, begins_here: bool) -> MappedBuffer:
        """Returns a buffer that host and device use in turns."""
        return MappedBuffer(self.library(), buffer, writes=writes, begins_here=begins_here)
