"""Dawn, Google's implementation of WebGPU, by wgpudawn, which has the API of wgpu-py."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

from meganeura_dsl.support.installation import install_command
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.config.limits import MatrixDialect, MatrixUnits
from meganeura_runtime.backends.webgpu.device.webgpu_api import WebGpuApi
from meganeura_runtime.backends.webgpu.device.webgpu_types import Adapter, WebGpuDevice, pointer

VERSION = (0, 32)
"""The version of wgpudawn whose internals this backend knows; pyproject.toml pins it."""
THREADS = "implicit-device-synchronization"
"""The feature with which several threads may use a device, as those that compile kernels do."""
EXACT_CLOCK = "timestamp_quantization"
"""The toggle that rounds timestamps, which browsers need and profiles do not."""
UNCHECKED = "disable_robustness"
"""The toggle that leaves checks of bounds out of kernels."""
MATRICES = "chromium-experimental-subgroup-matrix"
"""The feature of matrices of a subgroup, with which go `shader-f16` and `subgroups`."""
TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")
"""Toggles of Dawn: the first allows experimental features, the second f16 on NVIDIA."""
AT_A_TIME = 100_000_000
"""Nanoseconds of one wait, between which Python sees that it is interrupted."""


class Dawn(WebGpuApi):
    """Dawn, whose compiler of WGSL is Tint.

    It leaves the checks of bounds out of all kernels of a device or of none.
    """

    name = "dawn"
    checks_modules = False
    matrix_features = (MATRICES, "subgroups")
    cure = (
        "install the vendor's GPU driver, as Dawn takes no llvmpipe; or use the device `wgpu` "
        "or `cpu`"
    )

    def module(self) -> ModuleType:
        """Returns wgpudawn; it is loaded late, so that a machine without it can say so."""
        try:
            import wgpudawn  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

            _require_version(wgpudawn)
            _load_library()
        except ModuleNotFoundError as error:
            raise DeviceError(f"Dawn is not installed: {install_command('dawn')}") from error
        except (ImportError, OSError, RuntimeError) as error:
            raise DeviceError(
                f"wgpudawn cannot be loaded ({error}); use the device `wgpu` or `cpu`"
            ) from error
        return wgpudawn

    def library(self) -> ModuleType:
        """Returns the module of wgpudawn that has its C library."""
        return _library()

    def matrix_units(self, adapter: Adapter) -> MatrixUnits | None:
        """Returns the units whose squares have 16 rows, if all subgroups have 32 lanes."""
        if not {*self.matrix_features, "shader-f16"} <= set(adapter.features):
            return None
        units = MatrixUnits(MatrixDialect.CHROMIUM)
        wanted = {
            "component_type": "f16",
            "result_component_type": "f32",
            **dict.fromkeys(("m", "n", "k"), units.side),
            **dict.fromkeys(("min_subgroup_size", "max_subgroup_size"), units.lanes),
        }
        found = _extras().get_adapter_properties(adapter)["subgroup_matrix_configs"]
        return units if any(wanted.items() <= each.items() for each in found) else None

    def request_device(
        self,
        adapter: Adapter,
        features: Sequence[str],
        limits: Mapping[str, int],
        *,
        checked: bool,
    ) -> WebGpuDevice:
        """Returns a device of an adapter, which several threads may use."""
        return _extras().request_device_sync(
            adapter,
            required_features=[*features, THREADS],
            required_limits=limits,
            enable_toggles=() if checked else (UNCHECKED,),
            disable_toggles=[EXACT_CLOCK],
        )

    def submit(self, device: WebGpuDevice, commands: object) -> int:
        """Hand recorded commands to the device; returns the number of a future of their end."""
        library = _library()
        queue = pointer(device.queue)
        one = library.ffi.new("WGPUCommandBuffer[]", [pointer(commands)])
        library.libf.wgpuQueueSubmit(queue, 1, one)
        return _end_of(queue)

    def wait(self, device: WebGpuDevice, submission: int) -> None:
        """Wait until a submission is done, whatever was submitted after it."""
        del device  # futures are those of the instance
        while not _is_done(submission, AT_A_TIME):
            pass
        _deliver()

    def is_busy(self, device: WebGpuDevice) -> bool:
        """Returns whether a submission is not done; does not wait."""
        _deliver()
        return not _is_done(_end_of(pointer(device.queue)), 0)

    def tick(self, device: WebGpuDevice) -> float:
        """Returns a nanosecond, in seconds: Dawn converts ticks of the adapter's clock itself."""
        del device
        return 1e-9

    def unchecked_module(self, device: WebGpuDevice, text: str) -> object:
        """Returns a module as all of the device are."""
        return device.create_shader_module(code=text)


DAWN = Dawn()


@cache
def _library() -> ModuleType:
    return import_module("wgpudawn.backends.dawn._api")


@cache
def _extras() -> ModuleType:
    return import_module("wgpudawn.backends.dawn.extras")


@cache
def _instance() -> object:
    return import_module("wgpudawn.backends.dawn._helpers").get_wgpu_instance()


def _end_of(queue: object) -> int:
    """Returns the number of a future of the end of what was submitted so far."""
    library = _library()
    info = library.ffi.new("WGPUQueueWorkDoneCallbackInfo *")
    info.mode = library.lib.WGPUCallbackMode_AllowProcessEvents
    info.callback = _nothing()
    return int(library.libf.wgpuQueueOnSubmittedWorkDone(queue, info[0]).id)


@cache
def _nothing() -> object:
    """Returns a callback that does nothing: Dawn calls one, and futures are waited for."""
    signature = "void(WGPUQueueWorkDoneStatus, WGPUStringView, void *, void *)"

    def nothing(*_: object) -> None:
        pass

    return _library().ffi.callback(signature, nothing)


def _is_done(future: int, nanoseconds: int) -> bool:
    """Returns whether a future is complete, within a time."""
    library = _library()
    info = library.ffi.new("WGPUFutureWaitInfo *")
    info.future.id = future
    status = library.libf.wgpuInstanceWaitAny(_instance(), 1, info, nanoseconds)
    if status not in (library.lib.WGPUWaitStatus_Success, library.lib.WGPUWaitStatus_TimedOut):
        raise RuntimeError(f"Dawn does not wait (status {status})")
    return bool(info.completed)


def _deliver() -> None:
    """Have the library answer for what is done: buffers that were asked for come."""
    _library().libf.wgpuInstanceProcessEvents(_instance())


def _require_version(wgpudawn: ModuleType) -> None:
    if wgpudawn.version_info[:2] != VERSION:
        raise ImportError(f"wgpudawn {wgpudawn.__version__} is installed, 0.{VERSION[1]} is needed")


@cache
def _load_library() -> None:
    """Load what wgpudawn itself loads when it is first asked for adapters."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    import_module("wgpudawn.backends.auto")
    _extras().set_instance_extras(enable_toggles=TOGGLES)
