"""What a compiled step takes, as XLA has laid it out."""

from jax.stages import Compiled

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.memory_estimate import MemoryEstimate, estimate_memory


def step_memory(graph: Graph, compiled: Compiled) -> MemoryEstimate:
    """The arguments, outputs and temporaries of a step on each device, in bytes.

    The largest values are named as the program has them; XLA may never store them.
    """
    found, estimate = compiled.memory_analysis(), estimate_memory(graph)
    if found is None:
        return estimate
    together = found.argument_size_in_bytes + found.temp_size_in_bytes
    kept, _ = leaf_types(graph)
    return MemoryEstimate(
        together + found.output_size_in_bytes - found.alias_size_in_bytes,
        sum(map(size_in_bytes, kept.values())),
        estimate.largest,
    )
