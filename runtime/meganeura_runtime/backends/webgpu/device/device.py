"""The few things a session asks of an adapter."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meganeura_runtime.backends.webgpu.config.limits import (
    LEAST_FOR_MATRICES,
    DeviceLimits,
    Style,
)
from meganeura_runtime.backends.webgpu.device import adapters
from meganeura_runtime.backends.webgpu.device.adapters import (
    LOOKING,
    DeviceInfo,
    adapters_to_open,
    api_of,
    explained,
    numbered,
    preference,
    require_any,
)
from meganeura_runtime.backends.webgpu.device.gpu_timestamps import GpuTimestamps
from meganeura_runtime.backends.webgpu.device.mapped_buffer import MappedBuffer
from meganeura_runtime.backends.webgpu.device.webgpu_api import Command, command
from meganeura_runtime.backends.webgpu.device.webgpu_types import Adapter, Buffer, Encoder, Pipeline
from meganeura_runtime.support.tracing import Span, unobserved

FEATURES = ("shader-f16", "timestamp-query")
LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroups-per-dimension",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-storage-size",
    "min-storage-buffer-offset-alignment",
)
SHUFFLE_TEST = """\
@group(0) @binding(0) var<storage, read_write> b0: array<u32>;

@compute @workgroup_size({lanes})
fn main(@builtin(local_invocation_index) lane: u32) {{
    b0[lane] = {shuffles};
}}
"""
"""Every lane adds up the numbers of all lanes of its subgroup."""
MOST_COMPILERS = 16
"""Threads that compile kernels at once."""


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a buffer."""

    buffer: Buffer
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel bound to memory, ready to be run."""

    pipeline: Pipeline
    bindings: object
    workgroups: tuple[int, int, int]
    command: Command


Timekeeper = Callable[[Sequence[Launch], GpuTimestamps], None]
"""Called with the kernels of each submission, and with their timestamps."""


def open_device(selector: str = "wgpu", *, checked: bool | None = None) -> Device:
    """The adapter of that name; `wgpu` prefers a real GPU to software.

    Checked kernels clamp every index and bound every loop, which costs a quarter of a GPU's speed
    and more on matrix units.
    Unless asked for, only software adapters check, where it costs nothing.
    """
    with LOOKING:
        return _opened(selector, checked=checked)


def _opened(selector: str, *, checked: bool | None) -> Device:
    api = api_of(selector)
    found = adapters_to_open(api)
    require_any(found, api)
    infos = adapters.list_devices(api)
    if selector == api.name:
        number = min(range(len(infos)), key=lambda n: preference(infos[n]))
        reason = "no GPU was found" if infos[number].is_software else "the first GPU found"
    else:
        number, reason = numbered(selector, infos), "as asked"
    info = infos[number]
    return Device(
        found[number], info, reason, checked=info.is_software if checked is None else checked
    )


MANY_LAUNCHES = 64
"""Kernels of a step that take long to record."""
FIRST_LAUNCHES = 16
"""Kernels that are submitted first, so that the device has something to do."""


def _encode_copies(encoder: Encoder, copies: Sequence[tuple[Range, Range]]) -> None:
    for source, target in copies:
        encoder.copy_buffer_to_buffer(
            source.buffer, source.offset, target.buffer, target.offset, source.size
        )


class Device:
    """An open adapter: memory, kernels, and steps of many kernels in one submission."""

    def __init__(self, adapter: Adapter, info: DeviceInfo, reason: str, *, checked: bool) -> None:
        self.info = info
        self.checked = checked
        self.reason = reason
        self.submissions = 0
        self.read_backs = 0
        self.allocated = 0
        self.span: Span = unobserved
        self.timekeeper: Timekeeper | None = None
        self._api = api_of(info.selector)
        wanted = (*FEATURES, self._api.shuffles)
        features = [name for name in wanted if name in adapter.features]
        units = self._api.matrix_units(adapter)
        if adapter.limits["max-compute-workgroup-storage-size"] < LEAST_FOR_MATRICES:
            units = None
        self.matrix_units = units
        if units is not None:
            features += self._api.matrix_features
        limits = {name: adapter.limits[name] for name in LIMITS}
        with self._explained(f"opening {info}"):
            self._device = self._api.request_device(adapter, features, limits, checked=checked)
        self.style = Style.SOFTWARE_VULKAN if info.is_software else Style.GPU
        self.limits = DeviceLimits(
            buffer_bytes=limits["max-buffer-size"],
            binding_bytes=limits["max-storage-buffer-binding-size"],
            storage_buffers=limits["max-storage-buffers-per-shader-stage"],
            offset_alignment=limits["min-storage-buffer-offset-alignment"],
            workgroups=limits["max-compute-workgroups-per-dimension"],
            invocations=limits["max-compute-invocations-per-workgroup"],
            workgroup_bytes=limits["max-compute-workgroup-storage-size"],
            half_floats="shader-f16" in features,
        )
        self._checking: Device | None = None
        self.has_clock = "timestamp-query" in features
        self._pipelines: dict[tuple[str, bool], Future[Pipeline]] = {}
        """Pipelines by the text of the kernel, and by whether it is checked."""
        if self._api.shuffles in features and info.is_software:
            self.limits = replace(self.limits, lanes=self._working_lanes())

    def __str__(self) -> str:
        return f"{self.info} ({self.reason})"

    @property
    def checking(self) -> Device:
        """A device of this adapter that can check every index of a kernel: this one if it can.

        Kernels of strangers run there. Memory of one device is not that of another.
        """
        if self.checked or self._api.checks_modules:
            return self
        if self._checking is None:
            self._checking = open_device(self.info.selector, checked=True)
        return self._checking

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        return explained(doing, self._api)

    def _working_lanes(self) -> int:
        """The lanes of a subgroup: what the driver says, if shuffles among so many work, else 0.

        The sizes an adapter reports are not those its shuffles have; llvmpipe's name has its width.
        """
        width = re.search(r"(\d+) bits", self.info.name)
        if width is None:
            return 0
        lanes = int(width[1]) // 32
        shuffles = " + ".join(f"subgroupShuffle(lane, {source}u)" for source in range(lanes))
        test = SHUFFLE_TEST.format(lanes=lanes, shuffles=shuffles)
        at = Range(self.allocate(4 * lanes), 0, 4 * lanes)
        self.submit([self.launch(test, [at], (1, 1, 1))])
        found = self.read(at).view(np.uint32).tolist()
        self.free(at.buffer)
        self.submissions = self.read_backs = 0
        return lanes if found == [sum(range(lanes))] * lanes else 0

    def allocate(self, size: int) -> Buffer:
        """Memory that holds zeros."""
        usage = self._api.module().BufferUsage
        return self._buffer(size, usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)

    def _buffer(self, size: int, usage: int, *, is_mapped: bool = False) -> Buffer:
        with self._explained(f"allocating {size} bytes"):
            created = self._device.create_buffer(
                size=size, usage=usage, mapped_at_creation=is_mapped
            )
        self.allocated += size
        return created

    def free(self, buffer: Buffer) -> None:
        """Give memory back."""
        self.allocated -= buffer.size
        buffer.destroy()

    def write(self, at: Range, data: NDArray[np.uint8]) -> None:
        """Put bytes into memory, after all steps submitted so far."""
        with self._explained(f"writing {at.size} bytes"):
            self._device.queue.write_buffer(at.buffer, at.offset, data)

    def clear(self, ranges: Iterable[Range]) -> None:
        """Put zeros into memory, after all steps submitted so far; none of them is uploaded."""
        with self._explained("clearing memory"):
            encoder = self._device.create_command_encoder()
            for at in ranges:
                encoder.clear_buffer(at.buffer, at.offset, at.size)
            self._device.queue.submit([encoder.finish()])

    def read(self, at: Range) -> NDArray[np.uint8]:
        """Bytes from memory, once all steps submitted so far are done."""
        self.read_backs += 1
        with self._explained(f"reading {at.size} bytes"), self.span("read back"):
            data = self._device.queue.read_buffer(at.buffer, at.offset, at.size)
        return np.frombuffer(data, np.uint8)

    def launch(
        self,
        text: str,
        ranges: Sequence[Range],
        workgroups: tuple[int, int, int],
        *,
        checked: bool = False,
    ) -> Launch:
        """A kernel bound to ranges in order; one text is compiled once."""
        pipeline = self._pipeline(text, checked=checked)
        entries = [
            {
                "binding": number,
                "resource": {"buffer": at.buffer, "offset": at.offset, "size": at.size},
            }
            for number, at in enumerate(ranges)
        ]
        with self._explained("binding a kernel"):
            layout = pipeline.get_bind_group_layout(0)
            bindings = self._device.create_bind_group(layout=layout, entries=entries)
        return Launch(pipeline, bindings, workgroups, command(pipeline, bindings, workgroups))

    def compile(self, texts: Sequence[str], *, checked: bool = False) -> int:
        """Begin to compile kernels on all processors; how many of them are new.

        `launch` waits for its kernel. Those that are not ours are `checked` on every device.
        """
        checked = checked or self.checked
        new = [text for text in dict.fromkeys(texts) if (text, checked) not in self._pipelines]
        if not new:
            return 0
        compilers = ThreadPoolExecutor(min(MOST_COMPILERS, os.cpu_count() or 1))
        for text in new:
            self._pipelines[text, checked] = compilers.submit(self._compiled, text, checked)
        compilers.shutdown(wait=False)
        return len(new)

    def _pipeline(self, text: str, *, checked: bool) -> Pipeline:
        self.compile([text], checked=checked)
        with self._explained("compiling a kernel"):
            return self._pipelines[text, checked or self.checked].result()

    def _compiled(self, text: str, checked: bool) -> Pipeline:  # noqa: FBT001 - for `submit`
        module = (
            self._device.create_shader_module(code=text)
            if checked
            else self._api.unchecked_module(self._device, text)
        )
        return self._device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )

    def submit(
        self,
        launches: Sequence[Launch],
        copies: Sequence[tuple[Range, Range]] = (),
        before: Sequence[tuple[Range, Range]] = (),
        *,
        in_parts: bool = True,
    ) -> int:
        """Make copies `before`, run kernels, and make copies, in order.

        Does not wait for any of it; `wait` does, and takes the number that this returns. It is one
        submission, or several if it may be `in_parts` and the device would be idle while the host
        records many kernels.
        """
        *early, last = self._parts_of(launches) if in_parts else [launches]
        for part in early:
            self._submit_part(part, before=before)
            before = ()
        return self._submit_part(last, copies, before)

    def _submit_part(
        self,
        launches: Sequence[Launch],
        copies: Sequence[tuple[Range, Range]] = (),
        before: Sequence[tuple[Range, Range]] = (),
    ) -> int:
        with self._explained("running a step"), self.span("encode"):
            encoder = self._device.create_command_encoder()
            _encode_copies(encoder, before)
            self._encode(encoder, launches)
            _encode_copies(encoder, copies)
            commands = encoder.finish()
        with self._explained("running a step"), self.span("submit"):
            number = self._api.submit(self._device, commands)
        self.submissions += 1
        return number

    def _parts_of(self, launches: Sequence[Launch]) -> list[Sequence[Launch]]:
        """Kernels in the parts that are submitted one by one, each twice as long as the one before.

        Recording a kernel takes less than half as long as running one, so a device that runs one
        part has the next when it is done. One that is busy needs no parts.
        """
        if len(launches) < MANY_LAUNCHES or self.timekeeper is not None or self.is_busy:
            return [launches]
        parts: list[Sequence[Launch]] = []
        start, size = 0, FIRST_LAUNCHES
        while len(launches) - start > 2 * size:
            parts.append(launches[start : start + size])
            start, size = start + size, 2 * size
        return [*parts, launches[start:]]

    def _encode(self, encoder: Encoder, launches: Sequence[Launch]) -> None:
        """Kernels in one pass; in one pass each, if somebody wants to know when they run."""
        if self.timekeeper is not None:
            self.timekeeper(launches, self.encode_stamped(encoder, launches))
            return
        compute = encoder.begin_compute_pass()
        self._api.record(compute, [launch.command for launch in launches])
        compute.end()

    @property
    def is_busy(self) -> bool:
        """True if a submission is not done; does not wait for it."""
        with self._explained("running a step"):
            return self._api.is_busy(self._device)

    def wait(self, submission: int) -> None:
        """Wait until a submission is done, whatever was submitted after it."""
        with self._explained("running a step"), self.span("wait"):
            self._api.wait(self._device, submission)

    def outgoing(self, size: int) -> MappedBuffer:
        """Memory that the host fills and the device copies from; the host has it first."""
        usage = self._api.module().BufferUsage
        buffer = self._buffer(size, usage.MAP_WRITE | usage.COPY_SRC, is_mapped=True)
        return self._api.mapped(buffer, writes=True, begins_here=True)

    def incoming(self, size: int) -> MappedBuffer:
        """Memory that the device copies to and the host reads; the device has it first."""
        usage = self._api.module().BufferUsage
        buffer = self._buffer(size, usage.MAP_READ | usage.COPY_DST)
        return self._api.mapped(buffer, writes=False, begins_here=False)

    def timed(self, launches: Sequence[Launch], before: int = 0) -> list[float]:
        """Returns the seconds of each of some kernels; see `stamped`."""
        return [end - start for start, end in self.stamped(launches, before)]

    def stamped(self, launches: Sequence[Launch], before: int = 0) -> list[tuple[float, float]]:
        """Run kernels in order, each in its own pass; when each began and ended.

        They run several times before that: an idle adapter lowers its clock.
        """
        with self._explained("timing kernels"):
            encoder = self._device.create_command_encoder()
            compute = encoder.begin_compute_pass()
            self._api.record(compute, [launch.command for launch in launches] * before)
            compute.end()
            stamps = self.encode_stamped(encoder, launches)
            self._device.queue.submit([encoder.finish()])
            return stamps.read()

    def encode_stamped(self, encoder: Encoder, launches: Sequence[Launch]) -> GpuTimestamps:
        """Kernels in order, each in its own pass that records when it began and ended."""
        usage = self._api.module().BufferUsage
        tick = self._api.tick(self._device)
        stamps = GpuTimestamps(
            self._device, len(launches), usage.QUERY_RESOLVE | usage.COPY_SRC, tick
        )
        for number, launch in enumerate(launches):
            compute = encoder.begin_compute_pass(timestamp_writes=stamps.around(number))
            self._api.record(compute, [launch.command])
            compute.end()
        stamps.resolve(encoder)
        return stamps

    def close(self) -> None:
        """Give the adapter back."""
        if self._checking is not None:
            self._checking.close()
        self._device.destroy()
