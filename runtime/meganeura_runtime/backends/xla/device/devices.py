"""Devices of JAX by name, and the configuration of JAX for this process."""

from collections.abc import Sequence
from functools import cache

import jax

from meganeura_dsl.support.paths import cache_folder
from meganeura_runtime.backends.backend import DeviceRow
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.forked_process import require_unforked
from meganeura_runtime.backends.xla import CACHE
from meganeura_runtime.backends.xla.device.hosts import join_launched

PLATFORMS = ("gpu", "cpu")
"""Platforms in the order in which `xla` prefers them."""
CURE = "for an NVIDIA GPU, pip install 'jax[cuda13]'"
LEAST_SECONDS = 0.3
"""Least compile time of programs that are cached."""


def set_up() -> None:
    """Configure the cache of compiled programs, once in a process.

    Where a launcher started several processes, they meet here: no device is known before that.
    Raises `DeviceError` in a process that was forked from one that did so.
    """
    require_unforked("xla")
    _set_up_once()


@cache
def _set_up_once() -> None:
    join_launched()
    folder = cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder / CACHE))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def all_of_platform(platform: str) -> Sequence[jax.Device]:
    """Returns the devices of all processes on a platform, ordered by process."""
    set_up()
    return sorted(jax.devices(platform), key=lambda each: (each.process_index, each.id))


def of_platform(platform: str) -> Sequence[jax.Device]:
    """Returns the devices of this process on a platform, `gpu` or `cpu`; empty without any."""
    return _found(platform)[0]


def _found(platform: str) -> tuple[Sequence[jax.Device], str]:
    """Returns the same, and the reason if there are none."""
    set_up()
    try:
        return jax.local_devices(backend=platform), ""
    except RuntimeError as error:
        return (), str(error).partition("\n")[0]


def rows() -> tuple[DeviceRow, ...]:
    """Returns every device as `meganeura devices` lists it."""
    found: list[DeviceRow] = []
    for platform in sorted(PLATFORMS):
        devices = of_platform(platform)
        for number, device in enumerate(devices):
            suffix = f":{number}" if len(devices) > 1 else ""
            found.append(
                DeviceRow(f"xla:{platform}{suffix}", device.device_kind, f"JAX {jax.__version__}")
            )
    return tuple(found)


def named(name: str) -> jax.Device:
    """Returns the device named `xla`, `xla:cpu`, `xla:gpu` or `xla:gpu:N`; raises `DeviceError`."""
    _, _, rest = name.partition(":")
    platform, _, number = rest.partition(":")
    if not platform:
        platform = next((each for each in PLATFORMS if of_platform(each)), "cpu")
    devices, reason = _found(platform)
    if not devices:
        cure = f"; {CURE}" if platform == "gpu" else ""
        raise DeviceError(f"JAX {jax.__version__} has no {platform.upper()} here: {reason}{cure}")
    if int(number or 0) >= len(devices):
        there = ", ".join(row.name for row in rows())
        raise DeviceError(f"there is no `{name}`: JAX has {there}")
    return devices[int(number or 0)]
