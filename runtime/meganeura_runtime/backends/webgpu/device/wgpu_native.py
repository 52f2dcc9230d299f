"""wgpu-native, by wgpu-py, and what it can do that its Python layer cannot, or only slowly."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from types import ModuleType
from warnings import warn

from meganeura_dsl.startup.tricks import Trick, is_enabled
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device.cffi_tables import NoTablesError, as_tables
from meganeura_runtime.backends.webgpu.device.webgpu_api import WebGpuApi
from meganeura_runtime.backends.webgpu.device.webgpu_types import Adapter, WebGpuDevice, pointer

VERSION = (0, 32)
"""The version of wgpu whose internals this backend knows; pyproject.toml pins it."""


class WgpuNative(WebGpuApi):
    """wgpu-native, whose compiler of WGSL is naga."""

    name = "wgpu"
    shuffles = "subgroup"
    cure = (
        "install the vendor's GPU driver, or a software one: on Debian and Ubuntu "
        "`apt-get install mesa-vulkan-drivers libvulkan1`; or use the device `cpu`"
    )

    def module(self) -> ModuleType:
        """Returns wgpu; it is loaded late, so that a machine without it can say so."""
        try:
            import wgpu  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

            _require_version(wgpu)
            _load_library()
        except (ImportError, OSError, RuntimeError) as error:
            raise DeviceError(f"wgpu cannot be loaded ({error}); use the device `cpu`") from error
        return wgpu

    def library(self) -> ModuleType:
        """Returns the module of wgpu that has its C library."""
        return _library()

    def request_device(
        self,
        adapter: Adapter,
        features: Sequence[str],
        limits: Mapping[str, int],
        *,
        checked: bool,  # noqa: ARG002 - each module is checked or not
    ) -> WebGpuDevice:
        """Returns a device of an adapter."""
        return adapter.request_device_sync(required_features=features, required_limits=limits)

    def submit(self, device: WebGpuDevice, commands: object) -> int:
        """Hand recorded commands to the device; returns the index of the submission."""
        library = _library()
        one = library.ffi.new("WGPUCommandBuffer[]", [pointer(commands)])
        return int(library.libf.wgpuQueueSubmitForIndex(pointer(device.queue), 1, one))

    def wait(self, device: WebGpuDevice, submission: int) -> None:
        """Wait until a submission is done, whatever was submitted after it."""
        library = _library()
        number = library.ffi.new("WGPUSubmissionIndex *", submission)
        until_done = True
        library.libf.wgpuDevicePoll(pointer(device), until_done, number)

    def is_busy(self, device: WebGpuDevice) -> bool:
        """Returns whether a submission is not done; does not wait."""
        library = _library()
        until_done = False
        is_empty = library.libf.wgpuDevicePoll(pointer(device), until_done, library.ffi.NULL)
        return not is_empty

    def tick(self, device: WebGpuDevice) -> float:
        """Returns the seconds of one tick of the adapter's clock."""
        return _library().libf.wgpuQueueGetTimestampPeriod(pointer(device.queue)) * 1e-9

    def unchecked_module(self, device: WebGpuDevice, text: str) -> object:
        """Returns a shader module that is trusted to stay in bounds."""
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


WGPU = WgpuNative()


@cache
def _library() -> ModuleType:
    return import_module("wgpu.backends.wgpu_native._api")


def _require_version(wgpu: ModuleType) -> None:
    if wgpu.version_info[:2] != VERSION:
        raise ImportError(f"wgpu {wgpu.__version__} is installed, 0.{VERSION[1]} is needed")


@cache
def _load_library() -> None:
    """Load what wgpu itself loads when it is first asked for adapters."""
    # Some drivers complain where it is missing, though nothing is drawn.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    try:
        with as_tables() if is_enabled(Trick.CFFI) else nullcontext():
            import_module("wgpu.backends.auto")
    except NoTablesError as error:
        warn(
            f"cffi gives no tables of wgpu's declarations ({error}): starts are slow", stacklevel=2
        )
        import_module("wgpu.backends.auto")
