"""Memory planning: tensors that are never alive together may share memory.

Buffers are few and tensors are ranges of them. WebGPU forbids a dispatch to read a buffer that it
writes through another binding of read-only access, so `schedule` binds every range of a buffer that
a dispatch writes as `read_write`; the ranges themselves never overlap.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from meganeura_runtime.backends.webgpu.plan import Slot


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor, and the first and the last dispatch between which it must keep its contents."""

    tensor: int
    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """True if both are alive at some time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Placement:
    """Slots by tensor, counted from buffer 0, and how large each buffer is."""

    slots: dict[int, Slot]
    buffers: tuple[int, ...]


def rounded(size: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


def assign_offsets(lifetimes: Sequence[Lifetime], alignment: int, buffer_bytes: int) -> Placement:
    """Put each tensor at the lowest free offset, the largest first.

    Greedy by size: Y. Pisarchyk and J. Lee, "Efficient memory management for deep neural net
    inference", 2020.
    """
    placed: list[list[tuple[Lifetime, Slot]]] = []
    for lifetime in sorted(lifetimes, key=lambda one: (-one.bytes, one.first, one.tensor)):
        for number, arena in enumerate(placed):
            offset = _lowest(lifetime, arena, alignment)
            if offset + lifetime.bytes <= buffer_bytes:
                arena.append((lifetime, Slot(number, offset, lifetime.bytes)))
                break
        else:
            placed.append([(lifetime, Slot(len(placed), 0, lifetime.bytes))])
    slots = {lifetime.tensor: slot for arena in placed for lifetime, slot in arena}
    ends = (max(slot.end for _, slot in arena) for arena in placed)
    return Placement(slots, tuple(rounded(end, alignment) for end in ends))


def _lowest(lifetime: Lifetime, arena: Sequence[tuple[Lifetime, Slot]], alignment: int) -> int:
    """The lowest offset at which nothing lies that is alive at the same time."""
    taken = sorted((slot.offset, slot.end) for other, slot in arena if other.meets(lifetime))
    offset = 0
    for start, end in taken:
        if offset + lifetime.bytes <= start:
            break
        offset = max(offset, rounded(end, alignment))
    return offset


def least_bytes(lifetimes: Iterable[Lifetime]) -> int:
    """The most bytes alive at one time, which no placement can go below."""
    return max((alive for _, alive in _alive(lifetimes)), default=0)


def fullest(lifetimes: Iterable[Lifetime]) -> int:
    """The first time at which most bytes are alive; raises `ValueError` if nothing ever is."""
    return max(_alive(lifetimes), key=lambda one: one[1])[0]


def _alive(lifetimes: Iterable[Lifetime]) -> Iterator[tuple[int, int]]:
    """The bytes alive from each time on at which they change."""
    changes: dict[int, int] = {}
    for lifetime in lifetimes:
        changes[lifetime.first] = changes.get(lifetime.first, 0) + lifetime.bytes
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - lifetime.bytes
    times = sorted(changes)
    return zip(times, accumulate(changes[time] for time in times), strict=True)
