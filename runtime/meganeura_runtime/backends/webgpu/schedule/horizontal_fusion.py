"""Small kernels that do not need each other run side by side, in one launch (horizontal fusion).

A launch waits for the one before it, however little either does. Here the first workgroups of a
launch do the work of one kernel and the next those of another: the projections of one vector, the
parts of a cache, the updates of many small parameters. A. Li et al., "Automatic horizontal fusion
for GPU kernels", CGO 2022.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.webgpu.analysis.materialize import is_loop
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel
from meganeura_runtime.backends.webgpu.schedule.list_scheduler import Schedule

SMALL = 8 << 20
"""Bytes that a GPU reads while it could launch a kernel: those that read more fill it anyway."""
WINDOW = 4
"""Launches that a kernel may be moved ahead by: its results wait in memory meanwhile."""
MOST = 8
"""Kernels in one launch."""


@dataclass
class _Launch:
    """Kernels that run side by side, by number, and the tensors that they are bound to."""

    kernels: list[int]
    bound: set[int]
    is_small: bool = field(default=False)


def horizontal_fusion(graph: Graph, schedule: Schedule, target: Target) -> Schedule:
    """The schedule with small kernels moved into earlier launches that they do not depend on."""
    if target.style is not Style.GPU:
        return schedule
    sizes = {value.id: size_in_bytes(value.type) for value in graph.values}
    launches: list[_Launch] = []
    launch_of: list[int] = []
    for number, (one, needed) in enumerate(
        zip(schedule.kernels, _dependencies(schedule), strict=True)
    ):
        bound = {schedule.in_place.get(each, each) for each in _tensors(one)}
        is_small = not _has_loop(one) and sum(sizes[each] for each in _tensors(one)) <= SMALL
        earliest = max((launch_of[each] + 1 for each in needed), default=0)
        first = max(earliest, len(launches) - WINDOW)
        position = next(
            (at for at in range(first, len(launches)) if _fits(launches[at], bound, target)),
            len(launches),
        )
        if not is_small or position == len(launches):
            position = len(launches)
            launches.append(_Launch([], set(), is_small))
        launches[position].kernels.append(number)
        launches[position].bound |= bound
        launch_of.append(position)
    order = [number for launch in launches for number in launch.kernels]
    return replace(
        schedule,
        kernels=tuple(schedule.kernels[number] for number in order),
        launches=tuple(launch_of[number] for number in order),
    )


def _tensors(one: FusedKernel) -> frozenset[int]:
    """Returns the ids of the values that a kernel reads and writes."""
    return one.reads | {value.id for value in one.work.stores}


def _has_loop(one: FusedKernel) -> bool:
    return bool(one.work.anchors) and is_loop(one.work.anchors[0])


def _fits(launch: _Launch, bound: set[int], target: Target) -> bool:
    """True if a launch has room for one more small kernel."""
    few = len(launch.bound | bound) <= target.limits.storage_buffers
    return launch.is_small and few and len(launch.kernels) < MOST


def _dependencies(schedule: Schedule) -> Iterator[Sequence[int]]:
    """Yields the predecessors of each kernel.

    Writers of its inputs, readers of what it overwrites.
    """
    makers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, one in enumerate(schedule.kernels):
        overwritten = _overwritten(one, schedule.in_place)
        yield [
            *(makers[each] for each in one.reads if each in makers),
            *(reader for each in overwritten for reader in readers.get(each, ())),
        ]
        for each in one.reads:
            readers.setdefault(each, []).append(number)
        makers |= {value.id: number for value in one.work.stores}


def _overwritten(one: FusedKernel, in_place: Mapping[int, int]) -> Iterator[int]:
    """The parameters whose old values a kernel overwrites."""
    return (in_place[value.id] for value in one.work.stores if value.id in in_place)
