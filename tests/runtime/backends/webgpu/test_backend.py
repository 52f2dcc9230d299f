"""The backend of adapters: what it lists, and what it takes, whichever adapters there are."""

import pytest

from meganeura_runtime.backends.backend import DeviceRow
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.webgpu.device import adapters
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo

GPU = DeviceInfo("wgpu:0", "H200", "DiscreteGPU", "Vulkan", "570.1")
SOFTWARE = DeviceInfo("wgpu:1", "llvmpipe", "CPU", "OpenGL", "Mesa 22")


def found(monkeypatch: pytest.MonkeyPatch, *infos: DeviceInfo) -> WebGpuBackend:
    monkeypatch.setattr(adapters, "list_devices", lambda *_: infos)
    return WebGpuBackend()


def test_adapters_are_listed_by_name_with_what_drives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, GPU, SOFTWARE).devices() == (
        DeviceRow("wgpu:0", "H200", "DiscreteGPU, Vulkan, 570.1"),
        DeviceRow("wgpu:1", "llvmpipe", "CPU, OpenGL, Mesa 22"),
    )


def test_software_is_taken_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for infos in ((GPU,), (GPU, SOFTWARE)):
        assert found(monkeypatch, *infos).preferred() == "wgpu"
    with pytest.raises(DeviceError, match="no GPU was found"):
        found(monkeypatch, SOFTWARE).preferred()
    found(monkeypatch, SOFTWARE).require("wgpu")


def test_an_adapter_that_is_asked_for_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = found(monkeypatch, GPU, SOFTWARE)
    backend.require("wgpu:1")
    with pytest.raises(DeviceError, match="there is no adapter 2; there are: wgpu:0: H200"):
        backend.require("wgpu:2")
    for name in ("wgpu", "wgpu:0"):
        with pytest.raises(DeviceError, match="no adapter was found"):
            found(monkeypatch).require(name)
