"""Memory that host and device use in turns, and waiting for single submissions."""

import numpy as np
import pytest

from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.device.wgpu_native import WGPU

pytestmark = pytest.mark.adapter


def test_bytes_go_there_and_back_in_turns(device: Device) -> None:
    outgoing, incoming, between = device.outgoing(64), device.incoming(64), device.allocate(64)
    for turn in range(3):
        assert outgoing.is_here
        outgoing.content()[:] = np.arange(64, dtype=np.uint8) + turn
        outgoing.give()
        there = (Range(outgoing.buffer, 0, 64), Range(between, 0, 64))
        back = (Range(between, 0, 64), Range(incoming.buffer, 0, 64))
        number = device.submit([], [there, back])
        outgoing.ask()
        incoming.ask()
        device.wait(number)
        assert incoming.is_here
        assert incoming.content().tolist() == [byte + turn for byte in range(64)]
        incoming.give()
    for buffer in (outgoing.buffer, incoming.buffer, between):
        device.free(buffer)


def test_what_the_device_has_the_host_cannot_touch(device: Device) -> None:
    mapped = device.outgoing(16)
    mapped.give()
    assert not mapped.is_here
    with pytest.raises(RuntimeError, match="the device has the buffer"):
        mapped.content()
    mapped.ask()
    device.wait(device.submit([]))
    assert mapped.is_here
    device.free(mapped.buffer)


def test_memory_that_cannot_come_back_is_an_error(device: Device) -> None:
    mapped = device.outgoing(16)
    mapped.give()
    mapped.ask()
    device.free(mapped.buffer)
    device.wait(device.submit([]))
    with pytest.raises(RuntimeError, match="a buffer could not be mapped"):
        assert mapped.is_here


def test_the_clock_ticks(device: Device) -> None:
    assert 0 < WGPU.tick(device._device) < 1e-3
