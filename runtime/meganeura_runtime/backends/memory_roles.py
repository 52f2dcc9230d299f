"""The role of each value of a graph in the memory of a step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.reserved_names import STATES


class MemoryRole(StrEnum):
    """The role of a tensor in a training step."""

    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer state"
    STATES = "states"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    ACTIVATIONS = "activations"
    """Values from which the loss, the metrics and the new states are computed."""
    GRADIENTS = "gradients"
    """Everything else on the way to the new parameters."""
    UPDATES = "updates"
    """New values that are not written in place of the old ones."""
    TEMPORARIES = "temporaries"
    """Activations, gradients and updates, where a compiler does not say which they are."""
    PADDING = "padding"
    """Alignment, and gaps between tensors that share memory."""


KEPT = (MemoryRole.PARAMETERS, MemoryRole.OPTIMIZER, MemoryRole.STATES)
"""Roles of what stays from one step to the next."""


@dataclass(frozen=True)
class StepMemory:
    """The bytes of a step at its fullest moment, and what stays allocated between steps."""

    roles: Mapping[MemoryRole, int]
    held: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(self.roles.values())

    def beside(self, other: "StepMemory") -> int:
        """The most bytes of two sessions that are both open, of which one runs at a time."""
        return max(self.bytes + other.held, self.held + other.bytes)


def sum_by_role(graph: Graph, values: Iterable[tuple[Value, int]]) -> dict[MemoryRole, int]:
    """The bytes of values of a graph, added up by their roles."""
    roles = roles_of(graph)
    sums: dict[MemoryRole, int] = {}
    for value, size in values:
        role = roles[value.id]
        sums[role] = sums.get(role, 0) + size
    return sums


def roles_of(graph: Graph) -> dict[int, MemoryRole]:
    """The role of each value, by its number."""
    updated = {value.id for value in graph.updates.values()}
    leaves = [value.op for value in graph.values if isinstance(value.op, Leaf)]
    states = {leaf.name for leaf in leaves if _role_of_leaf(leaf) is MemoryRole.STATES}
    forward = _ancestors(
        [
            *graph.outputs.values(),
            *(value for name, value in graph.updates.items() if name in states),
        ]
    )
    outputs = {value.id for value in graph.outputs.values()}

    def role(value: Value) -> MemoryRole:
        if isinstance(value.op, Leaf):
            return _role_of_leaf(value.op)
        if value.id in updated:
            return MemoryRole.UPDATES
        if value.id in outputs:
            return MemoryRole.OUTPUTS
        return MemoryRole.ACTIVATIONS if value.id in forward else MemoryRole.GRADIENTS

    return {value.id: role(value) for value in graph.values}


def _role_of_leaf(leaf: Leaf) -> MemoryRole:
    if not isinstance(leaf, Parameter):
        return MemoryRole.INPUTS
    if leaf.name.startswith(STATES):
        return MemoryRole.OPTIMIZER
    return MemoryRole.STATES if leaf.kind in ("state", "cache") else MemoryRole.PARAMETERS


def _ancestors(roots: Iterable[Value]) -> set[int]:
    """These values and all they are computed from."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if value.id not in found:
            found.add(value.id)
            waiting.extend(value.operands)
    return found
