"""Which device a program runs on, opened while the program is still being read.

Loading wgpu, looking for adapters and opening one take about half a second, much of it outside of
Python: a thread does so meanwhile, if it is told early which device will be asked for. It also
imports what it needs for that, so that importing this module is nothing to wait for.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from meganeura_dsl.support.phases import Phase, tell
from meganeura_runtime.support.background import begin

if TYPE_CHECKING:
    from meganeura_runtime.backends.webgpu.device.device import Device

CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open adapter, or none, and then why it is the CPU."""

    device: Device | None
    reason: str = ""


_begun: dict[str, Future[_Timed]] = {}


def begin_to_open(selector: str) -> None:
    """Open in another thread what `opened` will be asked for."""
    if selector != CPU and selector not in _begun:
        _begun[selector] = begin("device", _timed, selector)


def opened(selector: str) -> Opened:
    """The device of that name; `auto` is a GPU if there is one, and the CPU otherwise.

    Raises `DeviceError`, but for `auto`.
    """
    begun = _begun.pop(selector, None)
    timed = _timed(selector) if begun is None else begun.result()
    if timed.opened.device is not None:
        tell(timed.phase)
    return timed.opened


@dataclass(frozen=True, slots=True)
class _Timed:
    """What was opened, and when."""

    opened: Opened
    phase: Phase


def _timed(selector: str) -> _Timed:
    start = perf_counter()
    found = _open(selector)
    return _Timed(found, Phase("gpu_init", "device", start, perf_counter()))


def _open(selector: str) -> Opened:
    if selector == CPU:
        return Opened(None, "as asked")

    from meganeura_runtime.backends.errors import DeviceError
    from meganeura_runtime.backends.webgpu.device.adapters import list_devices

    try:
        infos = list_devices()
    except DeviceError as error:
        if selector != "auto":
            raise
        return Opened(None, str(error))
    if selector == "auto" and all(info.is_software for info in infos):
        return Opened(None, "no GPU was found")

    from meganeura_runtime.backends.webgpu.device.device import open_device

    return Opened(open_device("wgpu" if selector == "auto" else selector))
