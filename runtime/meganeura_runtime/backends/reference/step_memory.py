"""The memory of a step of the reference interpreter."""

from meganeura_dsl.ir.graph import Graph, Leaf
from meganeura_runtime.backends.memory_estimate import fullest_values
from meganeura_runtime.backends.memory_roles import StepMemory, sum_by_role
from meganeura_runtime.backends.reference.session import SUPPORT


def step_memory(graph: Graph) -> StepMemory:
    """The arrays of a step, by role.

    Scratch memory that an op needs, while it computes it, is not among them. Raises
    `ProblemError` for an op that is refused.
    """
    expanded = SUPPORT.supported(graph)
    fullest = fullest_values(expanded).items()
    held = sum(n for value, n in fullest if isinstance(value.op, Leaf) and value.op.is_persistent)
    return StepMemory(sum_by_role(expanded, fullest), held)
