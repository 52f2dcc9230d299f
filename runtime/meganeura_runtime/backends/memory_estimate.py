"""Estimates of the memory of a step and its uses, before it is asked for."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from meganeura_dsl.ir.graph import Graph, Leaf, Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_runtime.backends.errors import OutOfMemoryError
from meganeura_runtime.io.tensors.stored_tensor import NUMPY

NAMED = 3
"""The largest values that are named."""
MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True)
class MemoryEstimate:
    """The memory of a step at its fullest moment, in bytes."""

    bytes: int
    persistent: int
    """The part that does not depend on the batch: parameters, states and moments."""
    largest: tuple[str, ...]
    """The largest of what else there is then, in words."""

    def share(self, available: int) -> float:
        """About how much of the batch would fit, at most 1."""
        return min(
            1.0, max(0.0, (available - self.persistent) / max(1, self.bytes - self.persistent))
        )


class MemoryExceededError(OutOfMemoryError):
    """A step takes more memory than there is."""

    def __init__(self, need: MemoryEstimate, available: int | None) -> None:
        super().__init__(f"a step takes {gigabytes(need.bytes)} of memory, which is not there")
        self.need = need
        self.available = available
        """The available memory in bytes; `None` if the device does not say."""


def require_memory(graph: Graph) -> None:
    """Raise `MemoryExceededError` if a step on the CPU takes more than the machine has."""
    need, available = estimate_memory(graph), available_bytes()
    if available is not None and need.bytes > available:
        raise MemoryExceededError(need, available)


def available_bytes() -> int | None:
    """The memory of the machine that is free; `None` where the system does not say."""
    if not MEMORY.is_file():
        return None
    lines = MEMORY.read_text(encoding="ascii").splitlines()
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def estimate_memory(graph: Graph) -> MemoryEstimate:
    """Returns the memory of the interpreter at the fullest moment of a step."""
    fullest = fullest_values(graph)
    persistent = sum(stored_bytes(value) for value in graph.values if _is_persistent(value))
    rest = [value for value in fullest if not _is_persistent(value)]
    largest = sorted(rest, key=stored_bytes, reverse=True)[:NAMED]
    return MemoryEstimate(sum(fullest.values()), persistent, tuple(map(_described, largest)))


def fullest_values(graph: Graph) -> dict[Value, int]:
    """The values in memory when they take most, in order of computation, with their bytes.

    What is given from outside is there all the time, and any other value from its computation to
    its last use. A view takes the memory of what it shows, and a loop that runs, that of an
    iteration.
    """
    owner: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, value in enumerate(graph.values):
        viewed = Trait.VIEW in value.op.traits
        owner[value.id] = owner[value.operands[0].id] if viewed else value.id
        last |= {owner[each.id]: at for each in (value, *value.operands)}
    last |= {owner[root.id]: len(graph.values) for root in graph.roots}
    alive = {value.id: value for value in graph.values if not value.operands}
    last |= dict.fromkeys(alive, len(graph.values))
    now = most = sum(map(stored_bytes, alive.values()))
    fullest = {value: stored_bytes(value) for value in alive.values()}
    iterations = _bytes_of_iterations(graph)
    for at, value in enumerate(graph.values):
        if owner[value.id] == value.id and value.operands:
            alive[value.id] = value
            now += stored_bytes(value)
        inside = iterations.get(value.op, 0)
        if now + inside > most:
            most = now + inside
            fullest = {each: stored_bytes(each) for each in alive.values()}
            fullest[value] = fullest.get(value, 0) + inside
        for number in {owner[each.id] for each in (value, *value.operands)}:
            if last[number] == at:
                now -= stored_bytes(alive.pop(number))
    return fullest


def _bytes_of_iterations(graph: Graph) -> dict[Op, int]:
    """Returns the bytes that an iteration of each loop computes at its fullest moment."""
    found: dict[Op, int] = {}
    for op in {value.op for value in graph.values if value.op.bodies}:
        for body in op.bodies:
            fullest = fullest_values(body.graph).items()
            found[op] = sum(size for value, size in fullest if value.operands)
    return found


def stored_bytes(value: Value) -> int:
    """The bytes of a value as an array of NumPy."""
    return prod(concrete_shape(value.type.shape)) * NUMPY[value.type.dtype].itemsize


def gigabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def _is_persistent(value: Value) -> bool:
    return isinstance(value.op, Leaf) and value.op.is_persistent


def _described(value: Value) -> str:
    what = f"`{value.op.name}`" if isinstance(value.op, Leaf) else f"`{type(value.op).__name__}`"
    return f"{gigabytes(stored_bytes(value))}: {what} {value.type} {value.origin}".rstrip()
