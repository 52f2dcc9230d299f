"""Profiles: the time of each kernel of a step, beside the peak of the device."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

RUNS = 5
"""Profiled steps; each time is the median of so many."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Operations and bytes a second, and how they were found out."""

    flops: float
    bandwidth: float
    how: str

    def seconds(self, flops: int, moved: int) -> float:
        """The least time for so much arithmetic and so many bytes, where the two overlap."""
        return max(flops / self.flops, moved / self.bandwidth)


@dataclass(frozen=True, slots=True)
class Piece:
    """One kernel or op of a step, and its cost; a report sums the pieces of a group."""

    name: str
    kind: str
    location: str
    group: Hashable
    seconds: float
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """The pieces of one group, summed."""

    name: str
    kind: str
    locations: tuple[str, ...]
    calls: int
    seconds: float
    flops: int
    bytes: int


@dataclass(frozen=True)
class Profile:
    """The time and the memory of the parts of a step."""

    clock: str
    peaks: Peaks
    rows: tuple[Row, ...]
    """The slowest first."""
    step: float
    """Seconds of a step, while many follow each other."""
    host: Mapping[str, float]
    """Seconds of a step that the host works for the adapter, by what it does."""
    memory: Mapping[str, int]
    """Bytes, by what they are for."""
    least: int | None
    """Bytes that temporaries need however they are placed, where that is known."""
    choices: str = ""
    """The source of choices that differ from the planner's; empty if none."""

    @property
    def kernels(self) -> float:
        """Seconds of all rows together."""
        return sum(row.seconds for row in self.rows)

    def roofline(self, row: Row) -> float:
        """The time the peaks allow, as a share of the time it took."""
        return self.peaks.seconds(row.flops, row.bytes) / max(row.seconds, 1e-12)

    def kinds(self) -> tuple[Row, ...]:
        """The rows summed by kind, the slowest first."""
        return _grouped((row.kind, row) for row in self.rows)


def rows_of(pieces: Iterable[Piece]) -> tuple[Row, ...]:
    """The pieces summed by group, the slowest first."""
    rows = ((one.group, _row(one)) for one in pieces)
    return _grouped(rows)


def _row(one: Piece) -> Row:
    return Row(one.name, one.kind, (one.location,), 1, one.seconds, one.flops, one.bytes)


def _grouped(rows: Iterable[tuple[Hashable, Row]]) -> tuple[Row, ...]:
    groups: dict[Hashable, list[Row]] = {}
    for key, row in rows:
        groups.setdefault(key, []).append(row)
    return tuple(sorted(map(_sum, groups.values()), key=lambda row: -row.seconds))


def _sum(rows: Sequence[Row]) -> Row:
    locations = tuple(dict.fromkeys(location for row in rows for location in row.locations))
    first = rows[0]
    return Row(
        first.name,
        first.kind,
        locations,
        sum(row.calls for row in rows),
        sum(row.seconds for row in rows),
        sum(row.flops for row in rows),
        sum(row.bytes for row in rows),
    )
