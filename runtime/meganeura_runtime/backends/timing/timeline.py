"""Moments on tracks, and the file that Chrome and Perfetto draw them from.

The format is the "Trace Event Format" of Chrome: complete events `X` with microseconds, counters
`C`, and names of processes and threads as metadata `M`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meganeura_dsl.support.phases import Phase

HOST, DEVICE = 1, 2
"""The two processes that a viewer shows, each with its tracks."""
HOST_TRACK = "host"
"""The track of the main thread."""


@dataclass(frozen=True)
class Moment:
    """Something that took some time, in seconds of the host's clock."""

    track: str
    name: str
    start: float
    end: float
    details: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Level:
    """Amounts of something, by kind, from some moment on."""

    name: str
    at: float
    amounts: Mapping[str, float]


@dataclass
class Timeline:
    """The events on the host and on a device, since a moment of the host's clock."""

    device: str
    since: float
    host: list[Moment] = field(default_factory=list[Moment])
    kernels: list[Moment] = field(default_factory=list[Moment])
    levels: list[Level] = field(default_factory=list[Level])

    def add(self, phases: Iterable[Phase]) -> None:
        """Show when a program was built, which may be before the timeline begins."""
        for each in phases:
            self.host.append(Moment(each.thread or HOST_TRACK, each.name, each.start, each.end))
            self.since = min(self.since, each.start)

    def text(self) -> str:
        """The file."""
        events = [*self._names(), *self._moments(), *self._counters()]
        return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})

    def _tracks(self) -> dict[tuple[int, str], int]:
        """The number of each track, in the order in which they are shown."""
        found = [(HOST, one.track) for one in self.host]
        found += [(DEVICE, one.track) for one in self.kernels]
        return {track: number for number, track in enumerate(dict.fromkeys(found), 1)}

    def _names(self) -> Iterator[dict[str, object]]:
        for process, name in ((HOST, "host"), (DEVICE, self.device)):
            yield _metadata("process_name", process, 0, name=name)
            yield _metadata("process_sort_index", process, 0, sort_index=process)
        for (process, name), number in self._tracks().items():
            yield _metadata("thread_name", process, number, name=name)
            yield _metadata("thread_sort_index", process, number, sort_index=number)

    def _moments(self) -> Iterator[dict[str, object]]:
        tracks = self._tracks()
        for process, moments in ((HOST, self.host), (DEVICE, self.kernels)):
            # A viewer nests what it is given in order: what began first, and lasted longest.
            for one in sorted(moments, key=lambda each: (each.start, -each.end)):
                start, end = self._at(one.start), self._at(one.end)
                yield {
                    "name": one.name,
                    "cat": one.track,
                    "ph": "X",
                    "ts": start,
                    "dur": round(end - start, 3),
                    "pid": process,
                    "tid": tracks[process, one.track],
                    "args": dict(one.details),
                }

    def _counters(self) -> Iterator[dict[str, object]]:
        for one in self.levels:
            yield {
                "name": one.name,
                "ph": "C",
                "ts": self._at(one.at),
                "pid": HOST,
                "tid": 0,
                "args": dict(one.amounts),
            }

    def _at(self, moment: float) -> float:
        """Microseconds, to the nanosecond."""
        return max(0.0, round(1e6 * (moment - self.since), 3))


def _metadata(kind: str, process: int, track: int, **values: object) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": values}
