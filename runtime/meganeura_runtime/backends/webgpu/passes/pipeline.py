"""The passes between an optimized graph and kernels, in the order in which they run.

A pass is a function from a graph and a target to a graph that means the same. To add one, write it
in its own file, name it here, and give it a golden file in `tests/passes`.
"""

from collections.abc import Callable, Iterator

from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.verify_passes import verify_after
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.passes.channels_last import channels_last_layout
from meganeura_runtime.backends.webgpu.passes.fuse_attention import fuse_attention
from meganeura_runtime.backends.webgpu.passes.half_copies import half_copies
from meganeura_runtime.backends.webgpu.passes.legalize import legalize
from meganeura_runtime.backends.webgpu.passes.matvec_to_reduction import matvec_to_reduction
from meganeura_runtime.backends.webgpu.passes.relu_backward_from_output import (
    relu_backward_from_output,
)
from meganeura_runtime.backends.webgpu.passes.rematerialize import rematerialize
from meganeura_runtime.backends.webgpu.passes.strided_to_interior_pad import (
    strided_to_interior_pad,
)
from meganeura_runtime.backends.webgpu.passes.support import SUPPORT

Pass = Callable[[Graph, Target], Graph]


def expand_unsupported(graph: Graph, _target: Target) -> Graph:
    """The graph with each fused op that has no kernel expanded to primitives."""
    return SUPPORT.supported(graph)


PASSES: tuple[Pass, ...] = (
    fuse_attention,
    expand_unsupported,
    relu_backward_from_output,
    strided_to_interior_pad,
    channels_last_layout,
    matvec_to_reduction,
    legalize,
    rematerialize,
    half_copies,
)


def name_of(one: Pass) -> str:
    """The name of a pass as `build --emit after:NAME` takes it."""
    return one.__name__.replace("_", "-")


def run_passes(graph: Graph, target: Target) -> Graph:
    """The graph after all passes: each value is read in place or made by one kernel."""
    *_, (_, last) = after_each(graph, target)
    return last


def after_each(graph: Graph, target: Target) -> Iterator[tuple[str, Graph]]:
    """The name of each pass with the graph after it; see `verify_after` for `PassError`."""
    for one in PASSES:
        graph = one(graph, target)
        verify_after(name_of(one), graph)
        yield name_of(one), graph
