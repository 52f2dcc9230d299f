"""In what order kernels run, and which parameters they update in place."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.graph.core import Graph, Leaf, Value
from meganeura_runtime.plan.fuse import Fused


@dataclass(frozen=True, slots=True)
class Order:
    """Kernels in the order they run; `in_place` maps an updated value to the leaf it overwrites."""

    kernels: tuple[Fused, ...]
    in_place: Mapping[int, int]


def order(graph: Graph, kernels: Sequence[Fused]) -> Order:
    """As the values were made, and readers of a parameter before the kernel that overwrites it.

    Where the readers cannot all come first, the new value is put elsewhere and copied at the end.
    """
    makers = {value.id: number for number, one in enumerate(kernels) for value in one.work.stores}
    before = [{makers[read] for read in one.reads if read in makers} for one in kernels]
    leaves = {value.op.name: value for value in graph.values if isinstance(value.op, Leaf)}
    in_place: dict[int, int] = {}
    for name, value in graph.updates.items():
        leaf = leaves.get(name)
        if leaf is not None and _may_overwrite(kernels, makers[value.id], leaf, before):
            in_place[value.id] = leaf.id
    return Order(tuple(kernels[number] for number in _sorted(kernels, before)), in_place)


def _may_overwrite(
    kernels: Sequence[Fused], writer: int, leaf: Value, before: list[set[int]]
) -> bool:
    """Whether the writer can come after all readers of the leaf; if so, it is made to."""
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


def _sorted(kernels: Sequence[Fused], before: Sequence[set[int]]) -> list[int]:
    """A topological order that keeps to the order in which the values were made."""
    waiting = [len(needed) for needed in before]
    after: list[list[int]] = [[] for _ in kernels]
    for number, needed in enumerate(before):
        for other in needed:
            after[other].append(number)
    ready = [(_rank(kernels[n]), n) for n, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    result: list[int] = []
    while ready:
        number = heapq.heappop(ready)[1]
        result.append(number)
        for other in after[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (_rank(kernels[other]), other))
    if len(result) < len(kernels):
        raise ValueError("the kernels depend on each other in a circle")
    return result


def _rank(kernel: Fused) -> int:
    return min(value.id for value in (*kernel.work.anchors, *kernel.work.stores))
