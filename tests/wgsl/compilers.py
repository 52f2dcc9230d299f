"""The two compilers of WGSL: naga, by wgpu, and Tint, by Dawn; each on a software adapter."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module

import pytest

from meganeura_runtime.backends.webgpu.device import adapters, dawn
from meganeura_runtime.backends.webgpu.device.adapters import list_devices
from meganeura_runtime.backends.webgpu.device.dawn import DAWN
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.device.webgpu_types import WebGpuDevice
from tests.chromium import swiftshader


@contextmanager
def tint() -> Iterator[Device]:
    """Dawn on Chromium's software Vulkan alone, the only one here that it takes.

    An instance knows the drivers of the time when it was made, so there is a new one.
    """
    manifest = swiftshader()
    assert manifest is not None, "Chromium has no SwiftShader here"
    import_module("wgpudawn.backends.dawn._helpers").__dict__["_the_instance"] = None
    for cached in (dawn._load_library, dawn._instance):
        cached.cache_clear()
    adapters._found.pop("dawn", None)
    adapters._unopened.pop("dawn", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VK_DRIVER_FILES", str(manifest))
        list_devices(DAWN)
    opened = open_device("dawn")
    yield opened
    opened.close()


def tint_with_matrices() -> WebGpuDevice:
    """A device of Dawn that runs nothing, with every feature: for the compiler alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WGPU_BACKEND_TYPE", "Null")
        adapter = DAWN.module().gpu.request_adapter_sync()
    return DAWN.request_device(adapter, [*DAWN.matrix_features, "shader-f16"], {}, checked=True)


@contextmanager
def naga() -> Iterator[Device]:
    """wgpu-native on any adapter."""
    opened = open_device("wgpu")
    yield opened
    opened.close()


COMPILERS: Mapping[str, Callable[[], AbstractContextManager[Device]]] = {
    "naga": naga,
    "Tint": tint,
}


def refusal(device: Device, text: str) -> str:
    """The first line of a compiler's objection to a kernel, or nothing.

    Kernels with shuffles are for wgpu alone, whose dialect does not enable them (`WebGpuApi`).
    """
    if "subgroupShuffle(" in text and not device._api.shuffles:
        return ""
    try:
        device._device.create_shader_module(code=text)
    except Exception as error:  # noqa: BLE001 - each library has its own class
        return str(error).strip().splitlines()[0]
    return ""
