"""Adapters that several threads look for at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from meganeura_runtime.backends.webgpu.device.adapters import list_devices
from meganeura_runtime.backends.webgpu.device.device import open_device


@pytest.mark.adapter
def test_threads_that_look_for_adapters_take_turns() -> None:
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(list_devices) for _ in range(4)]
        devices = [threads.submit(open_device, "wgpu") for _ in range(4)]
        assert len({one.result() for one in found}) == 1
    for one in devices:
        one.result().close()
