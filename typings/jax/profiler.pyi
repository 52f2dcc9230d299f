from collections.abc import Iterator
from contextlib import AbstractContextManager

class ProfileOptions:
    python_tracer_level: int

class ProfileEvent:
    name: str
    start_ns: float
    duration_ns: float
    stats: Iterator[tuple[str, object]]

class ProfileLine:
    name: str
    events: Iterator[ProfileEvent]

class ProfilePlane:
    name: str
    lines: Iterator[ProfileLine]

class ProfileData:
    planes: Iterator[ProfilePlane]
    @staticmethod
    def from_file(path: str) -> ProfileData: ...

def trace(folder: str, *, profiler_options: ProfileOptions) -> AbstractContextManager[None]: ...
