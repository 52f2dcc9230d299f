"""Adapters of each implementation of WebGPU."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.forked_process import require_unforked
from meganeura_runtime.backends.webgpu.device.dawn import DAWN
from meganeura_runtime.backends.webgpu.device.webgpu_api import WebGpuApi
from meganeura_runtime.backends.webgpu.device.webgpu_types import Adapter
from meganeura_runtime.backends.webgpu.device.wgpu_native import WGPU

KINDS: Mapping[str, int] = {"DiscreteGPU": 0, "IntegratedGPU": 1, "Unknown": 2, "CPU": 3}
BACKENDS: Mapping[str, int] = {"Vulkan": 0, "Metal": 0, "D3D12": 0, "OpenGL": 1}


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One adapter, under the name by which `open_device` takes it."""

    selector: str
    name: str
    kind: str
    backend: str
    driver: str
    largest: int = 128 << 20
    """Bytes of a tensor at most; by default what WebGPU guarantees."""

    @property
    def is_software(self) -> bool:
        """True if it is software Vulkan."""
        return self.kind == "CPU"

    def __str__(self) -> str:
        return f"{self.selector}: {self.name} ({self.kind}, {self.backend}, {self.driver})"


APIS: Mapping[str, WebGpuApi] = {api.name: api for api in (WGPU, DAWN)}
LOOKING = Lock()
"""Held by who makes, opens or drops adapters: wgpu does not protect them from a second thread."""
_found: dict[str, list[DeviceInfo]] = {}
"""The adapters of each API, once they were listed."""
_unopened: dict[str, Sequence[Adapter]] = {}
"""The adapters found when they were listed, until one of them is opened."""


def api_of(selector: str) -> WebGpuApi:
    """Returns the API of a device's name; raises `DeviceError`."""
    api = APIS.get(selector.partition(":")[0])
    if api is None:
        *first, last = (form for name in APIS for form in (name, f"{name}:N"))
        raise DeviceError(f"`{selector}` is no device; there are {', '.join(first)} and {last}")
    return api


def require_any(infos: Sequence[object], api: WebGpuApi = WGPU) -> None:
    """Raise `DeviceError` where there is no adapter at all."""
    if not infos:
        raise DeviceError(f"no adapter was found; {api.cure}")


def list_devices(api: WebGpuApi = WGPU) -> tuple[DeviceInfo, ...]:
    """Every adapter there is, as `wgpu:0`, `wgpu:1` ..."""
    if not _found.get(api.name):
        with LOOKING:
            if not _found.get(api.name):
                _unopened[api.name] = all_adapters(api)
    return tuple(_found[api.name])


def adapters_to_open(api: WebGpuApi = WGPU) -> Sequence[Adapter]:
    """Every adapter there is, in the order of `list_devices`. Only for who holds `LOOKING`."""
    require_unforked(api.name)
    return _unopened.pop(api.name, ()) or all_adapters(api)


def preference(info: DeviceInfo) -> tuple[int, int]:
    """The rank of an adapter; the lowest is taken."""
    return KINDS.get(info.kind, 2), BACKENDS.get(info.backend, 1)


def numbered(selector: str, infos: Sequence[DeviceInfo]) -> int:
    """The number of the adapter that `wgpu:N` names."""
    name = api_of(selector).name
    match = re.fullmatch(rf"{name}:(\d+)", selector)
    if match is None:
        raise DeviceError(f"`{selector}` is no device; there are {name} and {name}:N")
    number = int(match[1])
    if number >= len(infos):
        shown = "; ".join(map(str, infos))
        raise DeviceError(f"there is no adapter {number}; there are: {shown}")
    return number


def all_adapters(api: WebGpuApi = WGPU) -> Sequence[Adapter]:
    """Look for adapters. Only for who holds `LOOKING`."""
    require_unforked(api.name)
    with explained("looking for adapters", api):
        adapters = api.module().gpu.enumerate_adapters_sync()
    _found[api.name] = [described(n, adapter, api) for n, adapter in enumerate(adapters)]
    return adapters


def described(number: int, adapter: Adapter, api: WebGpuApi = WGPU) -> DeviceInfo:
    """Returns the description that an adapter gives of itself."""
    info = adapter.info
    return DeviceInfo(
        f"{api.name}:{number}",
        info["device"],
        info["adapter_type"],
        info["backend_type"],
        info["description"],
        adapter.limits["max-storage-buffer-binding-size"],
    )


@contextmanager
def explained(doing: str, api: WebGpuApi = WGPU) -> Generator[None]:
    """Turns what an API raises into an error that says what was being done, and what may help."""
    wgpu = api.module()
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        cure = "use a smaller batch, or a device with more memory"
        raise OutOfMemoryError(f"out of memory while {doing}; {cure}") from error
    except (wgpu.GPUError, RuntimeError) as error:
        if "lost" in str(error).lower():
            cure = "the driver has reset it: start again, and update the driver if it recurs"
            raise DeviceError(f"the device was lost while {doing}; {cure}") from error
        raise DeviceError(f"{doing} failed: {error}") from error
