"""Reads a trace as a viewer does, and holds it to the format."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

NANOSECOND = 1e-3


@dataclass(frozen=True)
class Shown:
    """One complete event, times in microseconds."""

    track: str
    name: str
    start: float
    end: float
    details: Mapping[str, object]

    def holds(self, other: "Shown") -> bool:
        """True if another lies within it."""
        return self.start <= other.start + NANOSECOND and other.end <= self.end + NANOSECOND

    def is_apart(self, other: "Shown") -> bool:
        """True if they have no moment in common."""
        return self.end <= other.start + NANOSECOND or other.end <= self.start + NANOSECOND


@dataclass(frozen=True)
class Drawing:
    """The content of a trace in a viewer: events by process, and the amounts of counters."""

    host: list[Shown]
    device: list[Shown]
    levels: list[Mapping[str, float]]


def drawn(text: str) -> Drawing:
    """The events of a file; fails where one is not as Chrome's format has it."""
    content = json.loads(text)
    assert content["displayTimeUnit"] == "ms"
    events = content["traceEvents"]
    tracks = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if (one["ph"], one["name"]) == ("M", "thread_name")
    }
    found: defaultdict[int, list[Shown]] = defaultdict(list)
    levels: list[Mapping[str, float]] = []
    for one in events:
        assert one["ph"] in "MXC"
        assert isinstance(one["name"], str)
        if one["ph"] == "X":
            assert one["dur"] >= 0
            assert one["ts"] >= 0
            track = tracks[one["pid"], one["tid"]]
            end = one["ts"] + one["dur"]
            found[one["pid"]].append(Shown(track, one["name"], one["ts"], end, one["args"]))
        elif one["ph"] == "C":
            assert all(amount >= 0 for amount in one["args"].values())
            levels.append(one["args"])
    for shown in found.values():
        assert_nested(shown)
    return Drawing(found[1], found[2], levels)


def assert_nested(shown: list[Shown]) -> None:
    """On one track, of any two events one holds the other, or they are apart."""
    for number, one in enumerate(shown):
        for other in shown[number + 1 :]:
            if one.track == other.track:
                assert one.holds(other) or other.holds(one) or one.is_apart(other), (one, other)
