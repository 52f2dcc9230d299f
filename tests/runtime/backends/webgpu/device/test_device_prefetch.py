"""A device that is opened in another thread is the one that is asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device import adapters, device
from meganeura_runtime.backends.webgpu.device.adapters import list_devices
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.device.device_prefetch import Opened, begin_to_open, opened


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Which devices were opened, and by which thread."""
    made: list[tuple[str, str]] = []

    def fail(selector: str) -> Device:
        made.append((selector, threading.current_thread().name))
        raise DeviceError(f"`{selector}` is no device")

    monkeypatch.setattr(device, "open_device", fail)
    monkeypatch.setattr(adapters, "list_devices", tuple[object, ...])
    return made


def test_it_is_opened_once_by_a_thread(asked: list[tuple[str, str]]) -> None:
    begin_to_open("wgpu:7")
    begin_to_open("wgpu:7")
    with pytest.raises(DeviceError, match="`wgpu:7` is no device"):
        opened("wgpu:7")
    assert asked == [("wgpu:7", "device_0")]
    with pytest.raises(DeviceError, match="`wgpu:8` is no device"):
        opened("wgpu:8")
    assert asked[1:] == [("wgpu:8", threading.current_thread().name)]


def test_each_who_asks_has_a_device_of_its_own(asked: list[tuple[str, str]]) -> None:
    for _ in range(2):
        begin_to_open("wgpu")
        with pytest.raises(DeviceError):
            opened("wgpu")
    assert len(asked) == 2


def test_the_cpu_needs_no_thread() -> None:
    begin_to_open("cpu")
    assert opened("cpu") == Opened(None, "as asked")


@pytest.mark.adapter
def test_what_a_thread_opened_works_in_this_one() -> None:
    begin_to_open("wgpu")
    found = opened("wgpu").device
    assert found is not None
    buffer = found.allocate(16)
    found.free(buffer)
    found.close()


@pytest.mark.adapter
def test_threads_that_look_for_adapters_take_turns() -> None:
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(list_devices) for _ in range(4)]
        devices = [threads.submit(open_device, "wgpu") for _ in range(4)]
        assert len({one.result() for one in found}) == 1
    for one in devices:
        one.result().close()
