"""Names of devices: the backends know them, and validation of settings asks them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

SYNTAX = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)*")
"""Pattern of the names of devices."""


@dataclass(frozen=True, slots=True)
class DeviceNames:
    """The names of devices, which need not be there."""

    accepts: Callable[[str], bool]
    listed: Callable[[], str]
    """All of them for people: `auto, cpu, wgpu or wgpu:N`."""


ANY_DEVICE = DeviceNames(
    lambda name: SYNTAX.fullmatch(name) is not None, lambda: "the name of a device"
)
"""Whatever looks like a name, for settings that were judged when they were given."""

_NVIDIA = ("cuda", "nvidia", "gpu", "xpu")
_OTHERS = ("mps", "metal", "rocm", "hip", "vulkan", "dx12", "directml", "opengl", "webgpu", "amd")


def gpu_words(name: str) -> str:
    """Returns our name of a GPU that other systems call so; empty if it is none."""
    first = name.lower().partition(":")[0]
    if first in _NVIDIA:
        return "any GPU is `wgpu`; one of NVIDIA is `xla:gpu` too, where JAX has its CUDA plugin"
    return "any GPU is `wgpu`" if first in _OTHERS else ""
