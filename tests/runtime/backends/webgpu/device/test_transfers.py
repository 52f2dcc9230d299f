"""Memory that inputs and outputs pass through, on a device that gives it back when told to."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.device.device import Device, Range
from meganeura_runtime.backends.webgpu.device.transfers import (
    Readback,
    ReadbackBuffers,
    StagingBuffer,
    StagingBuffers,
    from_bytes,
    to_bytes,
)
from meganeura_runtime.backends.webgpu.plan import Buffer, Plan, PlanTensor, Role, Slot
from meganeura_runtime.support.tracing import unobserved

SIZE = 16


class Mapped:
    """A buffer, and who has it."""

    def __init__(self, number: int, size: int, *, is_here: bool) -> None:
        self.buffer = SimpleNamespace(number=number, size=size)
        self.bytes = np.zeros(size, np.uint8)
        self.is_here = is_here
        self.asked = 0

    def content(self) -> NDArray[np.uint8]:
        assert self.is_here
        return self.bytes

    def give(self) -> None:
        assert self.is_here
        self.is_here = False

    def ask(self) -> None:
        self.asked += 1


class Host:
    """A device that makes buffers, and notes which are freed and what is waited for."""

    span = staticmethod(unobserved)

    def __init__(self) -> None:
        self.made: list[Mapped] = []
        self.freed: list[int] = []
        self.waited: list[int] = []

    def outgoing(self, size: int) -> Mapped:
        return self._made(size, is_here=True)

    def incoming(self, size: int) -> Mapped:
        return self._made(size, is_here=False)

    def _made(self, size: int, *, is_here: bool) -> Mapped:
        self.made.append(Mapped(len(self.made), size, is_here=is_here))
        return self.made[-1]

    def free(self, buffer: SimpleNamespace) -> None:
        self.freed.append(buffer.number)

    def wait(self, submission: int) -> None:
        self.waited.append(submission)
        for each in self.made:
            each.is_here = each.is_here or each.asked > 0


@pytest.fixture
def host() -> Host:
    return Host()


def plan() -> Plan:
    """Three inputs in two buffers, between which lies one that is for something else."""
    return Plan(
        Style.GPU,
        (Buffer(Role.INPUTS, SIZE), Buffer(Role.OUTPUTS, 64), Buffer(Role.INPUTS, 2 * SIZE)),
        (), (), (),
        (
            PlanTensor("a", DType.F32, (4,), Slot(0, 0, SIZE)),
            PlanTensor("b", DType.BOOL, (2,), Slot(2, 0, 8)),
            PlanTensor("c", DType.F16, (3,), Slot(2, 24, 8)),
        ),
        (), (), 0,
    )  # fmt: skip


FEEDS = {
    "a": np.array([1, 2, 3, 4], np.float32),
    "b": np.array([True, False]),
    "c": np.array([5, 6, 7], np.float16),
}


def staging(host: Host) -> StagingBuffers:
    return StagingBuffers(plan(), cast("Device", host))


def test_inputs_lie_in_a_stage_as_in_the_buffers_of_the_plan(host: Host) -> None:
    stage = staging(host).filled(FEEDS)
    first, second = host.made
    assert first.bytes.view(np.float32).tolist() == [1, 2, 3, 4]
    assert second.bytes.view(np.uint32)[:2].tolist() == [1, 0]
    assert second.bytes.view(np.float16).tolist()[12:] == [5, 6, 7, 0]
    assert not second.bytes[8:24].any()
    buffers = cast("Any", (first.buffer, second.buffer))
    assert stage.give() == {0: Range(buffers[0], 0, SIZE), 2: Range(buffers[1], 0, 2 * SIZE)}
    assert [each.is_here for each in host.made] == [False, False]


def test_a_stage_keeps_what_it_is_not_given(host: Host) -> None:
    """An input that a step copies from an output of the last one is not staged."""
    stages = staging(host)
    stages.unused(stages.filled(FEEDS))
    stages.filled({"b": np.array([False, True])})
    assert host.made[0].bytes.view(np.float32).tolist() == [1, 2, 3, 4]
    assert host.made[1].bytes.view(np.uint32)[:2].tolist() == [0, 1]
    assert host.made[1].bytes.view(np.float16).tolist()[12:] == [5, 6, 7, 0]


def submitted(stages: StagingBuffers) -> StagingBuffer:
    stage = stages.filled(FEEDS)
    stage.give()
    stages.submitted(stage)
    return stage


def test_a_stage_is_filled_again_once_all_of_it_is_back(host: Host) -> None:
    """Not before: the device would copy the inputs of another step."""
    stages = staging(host)
    first = submitted(stages)
    assert [each.asked for each in host.made] == [1, 1]
    for number in (0, 1):
        stages.collect()
        assert stages.filled(FEEDS) is not first
        host.made[number].is_here = True
    stages.collect()
    assert stages.filled(FEEDS) is first


def test_stages_come_back_in_the_order_they_went(host: Host) -> None:
    stages = staging(host)
    went = [submitted(stages) for _ in range(3)]
    for each in host.made[:4]:
        each.is_here = True
    stages.collect()
    back = [stages.filled(FEEDS) for _ in range(2)]
    assert {id(each) for each in back} == {id(each) for each in went[:2]}
    assert stages.filled(FEEDS) not in went


def test_a_stage_that_no_step_took_is_filled_again(host: Host) -> None:
    stages = staging(host)
    first = stages.filled(FEEDS)
    stages.unused(first)
    assert stages.filled({**FEEDS, "a": np.full(4, 9, np.float32)}) is first
    assert host.made[0].bytes.view(np.float32).tolist() == [9] * 4
    assert len(host.made) == 2


def test_all_stages_are_freed_once_wherever_they_are(host: Host) -> None:
    stages = staging(host)
    submitted(stages)
    idle = stages.filled(FEEDS)
    stages.unused(idle)
    stages.free()
    stages.free()
    assert sorted(host.freed) == [0, 1, 2, 3]


OUTPUTS = (
    PlanTensor("y", DType.F32, (2,), Slot(3, 0, 8)),
    PlanTensor("is", DType.BOOL, (), Slot(3, 8, 4)),
    PlanTensor("n", DType.I32, (2, 1), Slot(5, 0, 8)),
)
ON_DEVICE = {3: Range(cast("Any", "three"), 0, SIZE), 5: Range(cast("Any", "five"), 0, 8)}


def readback(host: Host) -> tuple[ReadbackBuffers, Readback]:
    pool = ReadbackBuffers(cast("Device", host), {3: SIZE, 5: 8})
    return pool, Readback(pool, ON_DEVICE)


def test_outputs_are_read_once_their_submission_is_done(host: Host) -> None:
    _, arriving = readback(host)
    first, second = host.made
    buffers = cast("Any", (first.buffer, second.buffer))
    assert arriving.copies == [
        (ON_DEVICE[3], Range(buffers[0], 0, SIZE)),
        (ON_DEVICE[5], Range(buffers[1], 0, 8)),
    ]
    arriving.submitted(7)
    first.bytes[:8] = np.array([0.5, -2], np.float32).view(np.uint8)
    first.bytes[8] = 1
    second.bytes[:] = np.array([-3, 4], np.int32).view(np.uint8)
    found = arriving.arrays(OUTPUTS)
    assert host.waited == [7]
    assert {name: array.tolist() for name, array in found.items()} == {
        "y": [0.5, -2], "is": True, "n": [[-3], [4]],
    }  # fmt: skip
    assert [array.dtype for array in found.values()] == [np.float32, np.bool_, np.int32]
    first.bytes[:] = 0
    assert found["y"].tolist() == [0.5, -2]


class Shared(Host):
    """A device whose callbacks run in another thread, which has polled, some time after a wait."""

    def wait(self, submission: int) -> None:
        if len(self.waited) == 2:
            super().wait(submission)
        else:
            self.waited.append(submission)


def test_outputs_wait_for_a_thread_that_has_polled_before() -> None:
    host = Shared()
    _, arriving = readback(host)
    arriving.submitted(7)
    host.made[0].bytes[:8] = np.array([0.5, -2], np.float32).view(np.uint8)
    assert arriving.arrays(OUTPUTS)["y"].tolist() == [0.5, -2]
    assert host.waited == [7, 7, 7]


def test_memory_of_outputs_is_used_again_once_they_are_read(host: Host) -> None:
    pool, first = readback(host)
    other = Readback(pool, ON_DEVICE)
    assert len(host.made) == 4
    first.submitted(1)
    first.arrays(OUTPUTS)
    assert [each.is_here for each in host.made[:2]] == [False, False]
    again = Readback(pool, ON_DEVICE)
    assert again.copies == first.copies
    assert again.copies != other.copies
    assert (len(host.made), host.freed) == (4, [])


def test_memory_of_outputs_is_freed_with_the_session_or_once_they_are_read(host: Host) -> None:
    pool, late = readback(host)
    read = Readback(pool, ON_DEVICE)
    late.submitted(1)
    read.submitted(2)
    read.arrays(OUTPUTS)
    pool.free()
    assert host.freed == [2, 3]
    late.arrays(OUTPUTS)
    assert host.freed == [2, 3, 0, 1]
    del late, read
    assert host.freed == [2, 3, 0, 1]


def test_memory_of_outputs_that_nobody_reads_is_freed(host: Host) -> None:
    _, arriving = readback(host)
    arriving.submitted(1)
    del arriving
    assert host.freed == [0, 1]


@pytest.mark.parametrize(
    ("dtype", "array", "words"),
    [
        (DType.F32, np.array([[1, 2]], np.float32), [0x3F800000, 0x40000000]),
        (DType.BOOL, np.array([True, False]), [1, 0]),
        (DType.F16, np.array([1, 2, -1], np.float16), [0x40003C00, 0xBC00]),
        (DType.I32, np.array(-1, np.int32), [0xFFFFFFFF]),
        (DType.U32, np.array([[1, 2], [3, 4]], np.uint32).T, [1, 3, 2, 4]),
        (DType.F32, np.zeros((0, 3), np.float32), []),
    ],
)  # fmt: skip
def test_an_array_lies_in_whole_words_and_is_read_back(
    dtype: DType, array: NDArray[Any], words: list[int]
) -> None:
    content = to_bytes(array, 4 * len(words))
    assert content.view(np.uint32).tolist() == words
    found = from_bytes(content, PlanTensor("x", dtype, array.shape, Slot(0, 0, 4 * len(words))))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
