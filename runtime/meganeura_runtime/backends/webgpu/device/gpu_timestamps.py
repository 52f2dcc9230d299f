"""Timestamps of a submission's passes, by the adapter's own clock.

The queries are resolved in the submission itself, and read once somebody wants to know: until then
nothing waits.
"""

from collections.abc import Mapping

import numpy as np

from meganeura_runtime.backends.webgpu.device.webgpu_types import Encoder, WebGpuDevice

MOST_QUERIES = 4096
"""Queries of one set, as WebGPU bounds them: two for each pass."""
BYTES = 8
"""The bytes of one time."""


class GpuTimestamps:
    """The times of so many passes, each in seconds from a moment that only the adapter knows."""

    def __init__(self, device: WebGpuDevice, passes: int, usage: int, period: float) -> None:
        self._queue = device.queue
        self._passes = passes
        self._period = period
        left = [min(MOST_QUERIES, 2 * passes - at) for at in range(0, 2 * passes, MOST_QUERIES)]
        self._sets = [(device.create_query_set(type="timestamp", count=n), n) for n in left]
        self._results = device.create_buffer(size=max(BYTES, 2 * BYTES * passes), usage=usage)

    def around(self, number: int) -> Mapping[str, object]:
        """Returns the descriptor with which a pass writes its times."""
        which, at = divmod(2 * number, MOST_QUERIES)
        return {
            "query_set": self._sets[which][0],
            "beginning_of_pass_write_index": at,
            "end_of_pass_write_index": at + 1,
        }

    def resolve(self, encoder: Encoder) -> None:
        """Let the submission end with the times in memory."""
        for number, (queries, count) in enumerate(self._sets):
            encoder.resolve_query_set(
                queries, 0, count, self._results, number * MOST_QUERIES * BYTES
            )

    def read(self) -> list[tuple[float, float]]:
        """Returns begin and end of each pass of the finished submission, and forgets them.

        No pass ends before it began, though WebGPU allows a clock to say so.
        """
        size = 2 * BYTES * self._passes
        content = self._queue.read_buffer(self._results, 0, size) if size else b""
        self._results.destroy()
        ticks = np.frombuffer(content, np.uint64).reshape(-1, 2).tolist()
        seconds = [(start * self._period, end * self._period) for start, end in ticks]
        return [(start, max(start, end)) for start, end in seconds]
