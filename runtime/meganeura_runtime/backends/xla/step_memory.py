"""Memory of a compiled step, as XLA has laid it out."""

from collections.abc import Mapping
from math import prod

from jax.sharding import Sharding
from jax.stages import Compiled

from meganeura_dsl.ir.graph import Graph, Leaf, Op
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.memory_estimate import MemoryEstimate, estimate_memory
from meganeura_runtime.backends.memory_roles import KEPT, MemoryRole, StepMemory, sum_by_role
from meganeura_runtime.backends.xla.lowering.element_types import jax_type


def step_memory(graph: Graph, compiled: Compiled) -> MemoryEstimate:
    """Returns the size of arguments, outputs and temporaries of a step on each device, in bytes.

    The largest values are named as the program has them; XLA may never store them.
    """
    found, estimate = compiled.memory_analysis(), estimate_memory(graph)
    if found is None:
        return estimate
    together = found.argument_size_in_bytes + found.temp_size_in_bytes
    persistent, _ = leaf_types(graph)
    return MemoryEstimate(
        together + found.output_size_in_bytes - found.alias_size_in_bytes,
        sum(map(size_in_bytes, persistent.values())),
        estimate.largest,
    )


def memory_by_role(
    graph: Graph, compiled: Compiled, shardings: Mapping[str, Sharding], copies: int
) -> StepMemory | None:
    """Returns the size of a step on the fullest device in bytes; `None` if XLA does not report it.

    So many bytes of `copies` of parameters lie beside these. XLA does not say what its temporaries
    are for: they are one role.
    """
    found = compiled.memory_analysis()
    if found is None:
        return None
    leaves = [value for value in graph.values if isinstance(value.op, Leaf)]
    given = [(each, _on_a_device(each.type, shardings[_name(each.op)])) for each in leaves]
    roles = sum_by_role(graph, given)
    if copies:
        roles[MemoryRole.PARAMETERS] = roles.get(MemoryRole.PARAMETERS, 0) + copies
    arguments = found.argument_size_in_bytes
    roles |= {
        MemoryRole.OUTPUTS: found.output_size_in_bytes - found.alias_size_in_bytes,
        MemoryRole.TEMPORARIES: found.temp_size_in_bytes,
        MemoryRole.PADDING: max(0, arguments - copies - sum(size for _, size in given)),
    }
    return StepMemory(roles, sum(roles.get(role, 0) for role in KEPT))


def _name(op: Op) -> str:
    return op.name if isinstance(op, Leaf) else ""


def _on_a_device(of: TensorType, sharding: Sharding) -> int:
    return prod(sharding.shard_shape(concrete_shape(of.shape))) * jax_type(of.dtype).itemsize
