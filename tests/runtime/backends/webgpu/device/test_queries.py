"""The times of many passes, of which a query set holds so many at most."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from meganeura_runtime.backends.webgpu.device.gpu_timestamps import MOST_QUERIES, GpuTimestamps


class Clock:
    """A device whose passes begin and end at ticks that were said before, and its encoder."""

    def __init__(self, ticks: list[tuple[int, int]]) -> None:
        self.queue = self
        self.ticks = ticks
        self.sets: list[list[int]] = []
        self.memory = np.zeros(0, np.uint64)

    def create_query_set(self, *, type: str, count: int) -> list[int]:  # noqa: A002
        assert (type, 0 < count <= MOST_QUERIES) == ("timestamp", True)
        self.sets.append([0] * count)
        return self.sets[-1]

    def create_buffer(self, *, size: int, usage: int) -> SimpleNamespace:
        assert usage == 5
        self.memory = np.zeros(size // 8, np.uint64)
        return SimpleNamespace(destroy=lambda: None)

    def resolve_query_set(
        self, queries: list[int], first: int, count: int, _to: object, offset: int
    ) -> None:
        assert offset % 256 == 0
        self.memory[offset // 8 : offset // 8 + count] = queries[first : first + count]

    def read_buffer(self, _buffer: object, offset: int, size: int) -> bytes:
        return self.memory.tobytes()[offset : offset + size]


@pytest.mark.parametrize("passes", [0, 1, 2047, 2048, 2049, 5000])
def test_each_pass_has_its_times_however_many_there_are(passes: int) -> None:
    """None ends before it began, whatever the clock says."""
    ticks = [(3 * number, 3 * number + number % 4 - 1) for number in range(1, passes + 1)]
    clock = Clock(ticks)
    stamps = GpuTimestamps(cast("Any", clock), passes, 5, 0.5)
    for number, (began, ended) in enumerate(ticks):
        around = cast("Any", stamps.around(number))
        queries = around["query_set"]
        queries[around["beginning_of_pass_write_index"]] = began
        queries[around["end_of_pass_write_index"]] = ended
    stamps.resolve(cast("Any", clock))
    assert sum(map(len, clock.sets)) == 2 * passes
    assert stamps.read() == [(began / 2, max(began, ended) / 2) for began, ended in ticks]
