"""List scheduling: the order in which kernels run, and which parameters are updated in place."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.webgpu.schedule.fusion import FusedKernel


@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in the order they run; `in_place` maps an updated value to the leaf it overwrites."""

    kernels: tuple[FusedKernel, ...]
    in_place: Mapping[int, int]
    launches: tuple[int, ...]
    """The number of each kernel's launch, in order; kernels of one launch run side by side."""


def list_schedule(graph: Graph, kernels: Sequence[FusedKernel]) -> Schedule:
    """Schedules kernels in the order of the values, those that free memory as soon as possible.

    Readers of a parameter come before the kernel that overwrites it. Where they cannot all come
    first, the new value is put elsewhere and copied at the end.
    """
    makers = {value.id: number for number, one in enumerate(kernels) for value in one.work.stores}
    before = [{makers[read] for read in one.reads if read in makers} for one in kernels]
    leaves = {value.op.name: value for value in graph.values if isinstance(value.op, Leaf)}
    in_place: dict[int, int] = {}
    for name, value in graph.updates.items():
        if _may_overwrite(kernels, makers[value.id], leaves[name], before):
            in_place[value.id] = leaves[name].id
    kept = {value.id for value in graph.outputs.values()} | in_place.keys()
    sizes = {
        value.id: size_in_bytes(value.type)
        for kernel in kernels
        for value in kernel.work.stores
        if value.id not in kept
    }
    order = tuple(kernels[number] for number in _sorted(kernels, before, sizes))
    return Schedule(order, in_place, tuple(range(len(order))))


def _may_overwrite(
    kernels: Sequence[FusedKernel], writer: int, leaf: Value, before: list[set[int]]
) -> bool:
    """True if the writer can come after all readers of the leaf; if so, it is made to."""
    if leaf.id in kernels[writer].elsewhere:
        return False
    readers = {
        number for number, one in enumerate(kernels) if leaf.id in one.reads and number != writer
    }
    if any(_depends(reader, writer, before) for reader in readers):
        return False
    before[writer] |= readers
    return True


def _depends(kernel: int, on: int, before: Sequence[set[int]]) -> bool:
    seen: set[int] = set()
    stack = [kernel]
    while stack:
        number = stack.pop()
        if number == on:
            return True
        if number not in seen:
            seen.add(number)
            stack.extend(before[number])
    return False


def _sorted(
    kernels: Sequence[FusedKernel], before: Sequence[set[int]], sizes: Mapping[int, int]
) -> list[int]:
    """A topological order: kernels that free memory first, then by rank."""
    waiting = [len(needed) for needed in before]
    after: list[list[int]] = [[] for _ in kernels]
    for number, needed in enumerate(before):
        for other in needed:
            after[other].append(number)
    queue = _Queue(kernels, sizes)
    for number, count in enumerate(waiting):
        if not count:
            queue.add(number)
    result: list[int] = []
    while (number := queue.next()) is not None:
        result.append(number)
        for other in after[number]:
            waiting[other] -= 1
            if not waiting[other]:
                queue.add(other)
    if len(result) < len(kernels):
        raise ValueError("the kernels depend on each other in a circle")
    return result


class _Queue:
    """Kernels whose turn may come, and how much memory each would take or give free."""

    def __init__(self, kernels: Sequence[FusedKernel], sizes: Mapping[int, int]) -> None:
        """`sizes` are the bytes of the tensors that are given free after their last reader."""
        self._reads = [kernel.reads & sizes.keys() for kernel in kernels]
        self._ranks = [_rank(kernel) for kernel in kernels]
        self._readers: dict[int, set[int]] = {tensor: set() for tensor in sizes}
        for number, reads in enumerate(self._reads):
            for tensor in reads:
                self._readers[tensor].add(number)
        self._sizes = sizes
        self._growth = [
            sum(sizes.get(value.id, 0) for value in kernel.work.stores) for kernel in kernels
        ]
        for tensor in sizes:
            self._note_last(tensor)
        self._ready: set[int] = set()
        self._freeing: list[tuple[int, int]] = []
        self._others: list[tuple[int, int]] = []

    def add(self, number: int) -> None:
        """Add a kernel whose inputs are all ready."""
        self._ready.add(number)
        queue = self._freeing if self._growth[number] < 0 else self._others
        heapq.heappush(queue, (self._ranks[number], number))

    def next(self) -> int | None:
        """Take the kernel out that is to run now; none if there is none."""
        for queue in (self._freeing, self._others):
            while queue:
                number = heapq.heappop(queue)[1]
                if number in self._ready:
                    self._ready.remove(number)
                    self._release(number)
                    return number
        return None

    def _release(self, number: int) -> None:
        """A kernel has read what it reads."""
        for tensor in self._reads[number]:
            self._readers[tensor].remove(number)
            last = self._note_last(tensor)
            if last in self._ready and self._growth[last] < 0:
                heapq.heappush(self._freeing, (self._ranks[last], last))

    def _note_last(self, tensor: int) -> int | None:
        """Returns the last reader of a tensor if only one is left: that one frees it."""
        if len(self._readers[tensor]) != 1:
            return None
        (last,) = self._readers[tensor]
        self._growth[last] -= self._sizes[tensor]
        return last


def _rank(kernel: FusedKernel) -> int:
    return min(value.id for value in (*kernel.work.anchors, *kernel.work.stores))
