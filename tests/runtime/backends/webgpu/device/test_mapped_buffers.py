"""Buffers that host and device use in turns, on a library that answers when it is told to."""

import gc
import weakref
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import cffi
import numpy as np
import pytest

from meganeura_runtime.backends.webgpu.device import mapped_buffer
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.device.webgpu_types import Buffer

DECLARED = """
typedef struct { char *data; size_t length; } WGPUStringView;
typedef int WGPUMapAsyncStatus;
typedef void (*WGPUBufferMapCallback)(WGPUMapAsyncStatus, WGPUStringView, void *, void *);
typedef struct {
    int mode; WGPUBufferMapCallback callback; void *userdata1; void *userdata2;
} WGPUBufferMapCallbackInfo;
"""
READ, WRITE, SUCCESS, ABORTED = 1, 2, 1, 4
SIZE = 16


class Library:
    """A model of wgpu-native's buffers, of which `memory` is the bytes of each."""

    def __init__(self) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(DECLARED)
        self.memory: dict[int, Any] = {}
        self.asked: list[tuple[int, int, int, int, Any]] = []
        self.unmapped: list[int] = []
        self.lib = SimpleNamespace(
            WGPUMapMode_Read=READ,
            WGPUMapMode_Write=WRITE,
            WGPUMapAsyncStatus_Success=SUCCESS,
            WGPUCallbackMode_AllowProcessEvents=7,
        )
        self.libf = SimpleNamespace(
            wgpuBufferMapAsync=self._map,
            wgpuBufferGetMappedRange=lambda at, first, size: self._range("write", at, first, size),
            wgpuBufferGetConstMappedRange=lambda at, first, size: self._range(
                "read", at, first, size
            ),
            wgpuBufferUnmap=self.unmapped.append,
        )
        self.ranges: list[tuple[str, int, int, int]] = []

    def buffer(self, number: int) -> Buffer:
        self.memory[number] = self.ffi.new("char[]", SIZE)
        return cast("Buffer", SimpleNamespace(_internal=number, size=SIZE))

    def answer(self, which: int = 0, status: int = SUCCESS) -> None:
        """Answer what was asked for, the oldest first."""
        *_, info = self.asked.pop(which)
        info.callback(status, {"data": self.ffi.NULL, "length": 0}, info.userdata1, info.userdata2)

    def _map(self, at: int, mode: int, first: int, size: int, info: object) -> None:
        kept = self.ffi.new("WGPUBufferMapCallbackInfo *", info)[0]
        self.asked.append((at, mode, first, size, kept))

    def _range(self, kind: str, at: int, first: int, size: int) -> object:
        self.ranges.append((kind, at, first, size))
        return self.memory[at]


def mapped_buffer_of(
    library: Library, number: int, *, writes: bool, begins_here: bool = False
) -> MappedBuffer:
    return MappedBuffer(
        cast("ModuleType", library), library.buffer(number), writes=writes, begins_here=begins_here
    )


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    found = Library()
    monkeypatch.setattr(mapped_buffer, "_asked", dict[int, MappedBuffer]())
    mapped_buffer._callback.cache_clear()
    yield found
    mapped_buffer._callback.cache_clear()


@pytest.mark.usefixtures("own_garbage")
@pytest.mark.parametrize("status", [SUCCESS, ABORTED])
def test_a_buffer_that_came_is_held_by_nothing_but_its_user(library: Library, status: int) -> None:
    """Each that a session asks for is given back with the session, however often it was asked."""
    for turns in (1, 2, 5):
        mapped = mapped_buffer_of(library, 1, writes=False)
        for _ in range(turns):
            mapped.ask()
            library.answer(status=status)
        found = weakref.ref(mapped)
        del mapped
        gc.collect()
        assert found() is None


@pytest.mark.usefixtures("own_garbage")
def test_a_buffer_that_is_asked_for_outlives_its_user_until_it_comes(library: Library) -> None:
    mapped = mapped_buffer_of(library, 1, writes=True)
    mapped.ask()
    found = weakref.ref(mapped)
    del mapped
    gc.collect()
    assert found() is not None
    library.answer()
    gc.collect()
    assert found() is None


def test_answers_reach_the_buffers_that_were_asked_for_in_any_order(library: Library) -> None:
    buffers = [mapped_buffer_of(library, number, writes=number % 2 == 0) for number in range(4)]
    for each in buffers:
        each.ask()
    assert [each[:4] for each in library.asked] == [
        (0, WRITE, 0, SIZE), (1, READ, 0, SIZE), (2, WRITE, 0, SIZE), (3, READ, 0, SIZE),
    ]  # fmt: skip
    here = [False] * 4
    left = [0, 1, 2, 3]
    for number in (2, 0, 3, 1):
        library.answer(left.index(number))
        left.remove(number)
        here[number] = True
        assert [each.is_here for each in buffers] == here


def test_one_that_cannot_come_is_an_error_and_the_others_come(library: Library) -> None:
    good, bad = (mapped_buffer_of(library, number, writes=False) for number in (1, 2))
    good.ask()
    bad.ask()
    library.answer(1, ABORTED)
    library.answer()
    assert good.is_here
    with pytest.raises(RuntimeError, match=rf"could not be mapped \(status {ABORTED}\)"):
        assert bad.is_here


@pytest.mark.parametrize("writes", [False, True])
def test_its_bytes_are_those_of_the_device_while_it_is_here(
    library: Library, *, writes: bool
) -> None:
    mapped = mapped_buffer_of(library, 5, writes=writes, begins_here=True)
    for _ in range(2):
        content = mapped.content()
        assert library.ranges[-1] == ("write" if writes else "read", 5, 0, SIZE)
        assert content.shape == (SIZE,)
        content[:] = np.arange(SIZE)
        assert bytes(library.ffi.buffer(library.memory[5])) == bytes(range(SIZE))
        mapped.give()
        assert (mapped.is_here, library.unmapped[-1]) == (False, 5)
        with pytest.raises(RuntimeError, match="the device has the buffer"):
            mapped.content()
        mapped.ask()
        assert not mapped.is_here
        library.answer()
