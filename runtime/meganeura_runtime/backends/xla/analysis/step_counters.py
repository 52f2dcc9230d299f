"""States to which each step adds a constant, as batch norms count their batches.

Each of them would take a kernel launch, so the host counts the steps, and adds the increments once
such a state is read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import Add, Constant, Parameter
from meganeura_dsl.ir.types import DType

INTEGERS = frozenset({DType.I32, DType.U32})


def counters_of(graph: Graph) -> dict[str, int]:
    """Returns the increment of each scalar state that a step only counts with."""
    readers = Counter(operand.id for value in graph.values for operand in value.operands)
    readers.update(value.id for value in graph.roots)
    return {
        name: added
        for name, value in graph.updates.items()
        if (added := _added(name, value, readers)) is not None
    }


def without_updates(graph: Graph, names: Mapping[str, int]) -> Graph:
    """Returns the same step without the updates of some states."""
    updates = {name: value for name, value in graph.updates.items() if name not in names}
    return replace(graph, updates=updates)


def _added(name: str, value: Value, readers: Counter[int]) -> int | None:
    """Returns the increment of a state that nothing else reads; `None` for any other state."""
    if not isinstance(value.op, Add) or value.type.dtype not in INTEGERS:
        return None
    by_kind = sorted(value.operands, key=lambda each: isinstance(each.op, Constant))
    state, number = by_kind
    if not isinstance(state.op, Parameter) or not isinstance(number.op, Constant):
        return None
    added = number.op.value
    is_alone = readers[state.id] == 1 and readers[value.id] == 1
    return added if isinstance(added, int) and state.op.name == name and is_alone else None
