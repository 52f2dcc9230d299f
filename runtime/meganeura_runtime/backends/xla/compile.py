"""A graph compiled for where its arrays lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
from jax import export
from jax.sharding import Sharding
from jax.stages import Compiled, Wrapped

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.loop_bodies import with_bodies
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.xla.element_types import jax_type
from meganeura_runtime.backends.xla.failures import explained
from meganeura_runtime.backends.xla.fuse_attention import CUDNN, fuse_attention, is_taken
from meganeura_runtime.backends.xla.numerics import Numerics
from meganeura_runtime.backends.xla.placement import Placement
from meganeura_runtime.backends.xla.step import step_function
from meganeura_runtime.backends.xla.support import SUPPORT

Arguments = dict[str, jax.ShapeDtypeStruct]

CUDA_GRAPHS = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION"
    ),
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA by which a CUDA graph has convolutions too, which are custom calls.

A training step of RepVGG-A0, of 1,000 kernels, takes 5.3 ms with them and 6.4 without on an H100;
steps of few kernels take the same within 1 %, and inference, which has few, up to 5 % more.
"""


@dataclass(frozen=True, eq=False)
class Program:
    """A graph, how exactly it computes, and where its arrays lie."""

    graph: Graph
    """In ops that the table lowers."""
    precision: ComputePrecision
    placement: Placement

    @staticmethod
    def of(graph: Graph, precision: ComputePrecision, placement: Placement) -> "Program":
        """The program of any graph; raises `ProblemError` for an op that is not supported."""
        if precision is ComputePrecision.BF16 and placement.platform != "cpu":
            graph = fuse_attention(graph, CUDNN, is_taken)
        return Program(_lowered(graph), precision, placement)

    @cached_property
    def kept(self) -> dict[str, Sharding]:
        """Where each parameter and state lies."""
        types, _ = leaf_types(self.graph)
        return {name: self.placement.kept(name, each) for name, each in types.items()}

    @cached_property
    def fed(self) -> dict[str, Sharding]:
        """Where each input lies."""
        _, types = leaf_types(self.graph)
        return {name: self.placement.fed(name, each) for name, each in types.items()}

    def compiled(self) -> Compiled:
        """The step as a program of the devices; raises `DeviceError`."""
        jitted, arguments = self._traceable()
        trains = bool(self.graph.updates)
        options = CUDA_GRAPHS if trains and self.placement.platform == "gpu" else {}
        with explained():
            return jitted.lower(*arguments).compile(compiler_options=options)

    def exported(self) -> str:
        """The step in StableHLO."""
        jitted, arguments = self._traceable()
        return export.export(jitted)(*arguments).mlir_module()

    def _traceable(self) -> tuple[Wrapped, tuple[Arguments, Arguments, Arguments]]:
        """The function (updated, constant, fed) to outputs and updates, and its arguments.

        What it updates is donated: the new values take the memory of the old ones.
        """
        graph = self.graph
        kept, fed = leaf_types(graph)
        arguments = _arguments(kept, self.kept)
        updated = {name: each for name, each in arguments.items() if name in graph.updates}
        constant = {name: each for name, each in arguments.items() if name not in graph.updates}
        outputs = {
            name: self.placement.given(name, value.type) for name, value in graph.outputs.items()
        }
        updates = {name: self.kept[name] for name in graph.updates}
        gathered = {
            name: where
            for name, each in kept.items()
            if (where := self.placement.gathered(name, each)) is not None
        }
        step = step_function(graph, Numerics.of(graph, self.precision), gathered)
        jitted = jax.jit(step, donate_argnums=0, out_shardings=(outputs, updates))
        return jitted, (updated, constant, _arguments(fed, self.fed))


def _arguments(types: Mapping[str, TensorType], shardings: Mapping[str, Sharding]) -> Arguments:
    return {
        name: jax.ShapeDtypeStruct(
            concrete_shape(each.shape), jax_type(each.dtype), sharding=shardings[name]
        )
        for name, each in types.items()
    }


def _lowered(graph: Graph) -> Graph:
    """The graph in ops of the table, bodies of loops too."""
    return with_bodies(SUPPORT.supported(graph), _lowered)
