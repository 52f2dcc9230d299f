"""Which adapters there are, and wgpu itself, which is loaded late so that it may be missing."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from warnings import warn

from meganeura_dsl.startup.tricks import Trick, is_enabled
from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.forked_process import require_unforked
from meganeura_runtime.backends.webgpu.device.cffi_tables import NoTablesError, as_tables
from meganeura_runtime.backends.webgpu.device.webgpu_types import Adapter

INSTALL_DRIVER = (
    "install the vendor's GPU driver, or a software one: on Debian and Ubuntu "
    "`apt-get install mesa-vulkan-drivers libvulkan1`; or use the device `cpu`"
)
VERSION = (0, 32)
"""The version of wgpu whose internals this backend knows; pyproject.toml pins it."""
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
        """Whether it is software Vulkan."""
        return self.kind == "CPU"

    def __str__(self) -> str:
        return f"{self.selector}: {self.name} ({self.kind}, {self.backend}, {self.driver})"


LOOKING = Lock()
"""Held by who makes, opens or drops adapters: wgpu does not protect them from a second thread."""
_found: list[DeviceInfo] = []
"""Those there are, once somebody has looked."""
_unopened: list[Adapter] = []
"""What was found when they were listed, until one of them is opened."""


def require_any(infos: Sequence[object]) -> None:
    """Raise `DeviceError` where there is no adapter at all."""
    if not infos:
        raise DeviceError(f"no adapter was found; {INSTALL_DRIVER}")


def list_devices() -> tuple[DeviceInfo, ...]:
    """Every adapter there is, as `wgpu:0`, `wgpu:1` ..."""
    if not _found:
        with LOOKING:
            if not _found:
                _unopened[:] = all_adapters()
    return tuple(_found)


def adapters_to_open() -> Sequence[Adapter]:
    """Every adapter there is, in the order of `list_devices`. Only for who holds `LOOKING`."""
    require_unforked("wgpu")
    listed = tuple(_unopened)
    _unopened.clear()
    return listed or all_adapters()


def preference(info: DeviceInfo) -> tuple[int, int]:
    """The rank of an adapter; the lowest is taken."""
    return KINDS.get(info.kind, 2), BACKENDS.get(info.backend, 1)


def numbered(selector: str, infos: Sequence[DeviceInfo]) -> int:
    """The number of the adapter that `wgpu:N` names."""
    match = re.fullmatch(r"wgpu:(\d+)", selector)
    if match is None:
        raise DeviceError(f"`{selector}` is no device; there are wgpu and wgpu:N")
    number = int(match[1])
    if number >= len(infos):
        shown = "; ".join(map(str, infos))
        raise DeviceError(f"there is no adapter {number}; there are: {shown}")
    return number


def all_adapters() -> Sequence[Adapter]:
    """Look for adapters. Only for who holds `LOOKING`."""
    require_unforked("wgpu")
    with explained("looking for adapters"):
        adapters = wgpu_module().gpu.enumerate_adapters_sync()
    _found[:] = [described(number, adapter) for number, adapter in enumerate(adapters)]
    return adapters


def wgpu_module() -> ModuleType:
    """The module, which loads a native library: late, so that a machine without it can say so."""
    try:
        import wgpu  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        _require_version(wgpu)
        _load_library()
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(f"wgpu cannot be loaded ({error}); use the device `cpu`") from error
    return wgpu


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


def described(number: int, adapter: Adapter) -> DeviceInfo:
    """What an adapter says of itself."""
    info = adapter.info
    return DeviceInfo(
        f"wgpu:{number}",
        info["device"],
        info["adapter_type"],
        info["backend_type"],
        info["description"],
        adapter.limits["max-storage-buffer-binding-size"],
    )


@contextmanager
def explained(doing: str) -> Generator[None]:
    """Turns what wgpu raises into an error that says what was being done, and what may help."""
    wgpu = wgpu_module()
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
