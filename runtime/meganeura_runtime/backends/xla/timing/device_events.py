"""Events of the devices under JAX's profiler: each instruction with its start and end."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

from jax.profiler import ProfileData, ProfileEvent, ProfileOptions

OP = "hlo_op"
"""Name of the statistic that holds the instruction of an event."""
DEVICE = "/device:"
HOST_PLANE = "/host:CPU"
"""Name of XLA's plane for the CPU, whose threads run instructions."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An instruction, or a kernel outside of any, in seconds since the profiler was started."""

    name: str
    start: float
    end: float


def options() -> ProfileOptions:
    """Returns options without a trace of every Python call, which would hide everything else."""
    found = ProfileOptions()
    found.python_tracer_level = 0
    return found


def device_events(folder: Path) -> tuple[DeviceEvent, ...]:
    """Returns the events that the profiler wrote to a folder, ordered by their start."""
    (file,) = folder.rglob("*.xplane.pb")
    found = sorted(_events(ProfileData.from_file(str(file))), key=lambda each: each.start)
    return tuple(found)


def _events(data: ProfileData) -> Iterator[DeviceEvent]:
    for plane in data.planes:
        for line in plane.lines:
            yield from _outermost(
                DeviceEvent(
                    name, 1e-9 * event.start_ns, 1e-9 * (event.start_ns + event.duration_ns)
                )
                for event in line.events
                if (name := _instruction(event, plane.name))
            )


def _outermost(events: Iterable[DeviceEvent]) -> Iterator[DeviceEvent]:
    """Yields the events of a thread or stream that lie in no other event."""
    end = -inf
    for event in sorted(events, key=lambda each: (each.start, -each.end)):
        if event.end > end:
            end = event.end
            yield event


def _instruction(event: ProfileEvent, plane: str) -> str:
    """Returns the instruction of an event, or the kernel of a GPU if there is none."""
    if plane == HOST_PLANE and event.name.startswith("end: "):
        return ""
    names = [str(value) for key, value in event.stats if key == OP]
    if names:
        return names[0]
    return event.name if plane.startswith(DEVICE) else ""
