"""A graph compiled for where its arrays lie."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import jax
from jax import export, lax
from jax.experimental.layout import Format
from jax.sharding import Sharding
from jax.stages import Compiled, Wrapped

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.loop_bodies import with_bodies
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.xla.element_types import jax_type
from meganeura_runtime.backends.xla.failures import explained
from meganeura_runtime.backends.xla.fuse_attention import CUDNN, fuse_attention, is_taken
from meganeura_runtime.backends.xla.layouts import layout_of
from meganeura_runtime.backends.xla.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.one_reading import in_one_reading
from meganeura_runtime.backends.xla.placement import OneDevice, Placement
from meganeura_runtime.backends.xla.step import copy_of, step_function
from meganeura_runtime.backends.xla.support import SUPPORT

Arguments = dict[str, jax.ShapeDtypeStruct]

CUDA_GRAPHS = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUDNN,CONVOLUTION,CUSTOM_CALL,DYNAMIC_SLICE_FUSION"
    ),
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA by which a CUDA graph has convolutions too, which are custom calls.

A training step of RepVGG-A0, of 1,000 kernels, takes 5.3 ms with them and 6.4 without on an H100;
steps of few kernels take the same within 1 %, and inference, which has few, up to 5 % more.
"""
ROUNDED = {"xla_allow_excess_precision": False}
"""What is stored in bfloat16 is rounded where it is computed.

By itself XLA drops a rounding whose result float32 is computed from, and stores the float32 that
was to be rounded. A training step of ViT-S moves a seventh more bytes so.
"""
WHOLE_SUMS = {"xla_gpu_experimental_force_split_k": 1}
"""Long sums of products are not cut in parts before a library is chosen, which does that itself.

The parts are of equal length: rows that do not divide so are padded, by a copy of both factors.
"""
MANY = 32
"""Convolutions from which on inference is one CUDA graph too.

That of ResNet-50, which has 53, takes 1.80 ms on an H100 where they are launched one by one, and
its kernels run for 1.15 of them; those of ResNet-18 and RepVGG-A0, which have 20 and 22, run for
nearly all of the time.
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
        graph = _lowered(graph)
        if precision is ComputePrecision.BF16:
            stored = Numerics.of(graph, precision).stored
            rounded = frozenset(name for name, dtype in stored.items() if dtype == BFLOAT16)
            graph = in_one_reading(graph, rounded)
        return Program(graph, precision, placement)

    @cached_property
    def kept(self) -> dict[str, Sharding]:
        """Where each parameter and state lies."""
        types, _ = leaf_types(self.graph)
        return {name: self.placement.kept(name, each) for name, each in types.items()}

    @cached_property
    def formats(self) -> dict[str, Format]:
        """Where each parameter and state lies, and in which order of its axes."""
        types, _ = leaf_types(self.graph)
        platform = self.placement.platform
        return {
            name: Format(layout_of(each, platform), self.kept[name]) for name, each in types.items()
        }

    @cached_property
    def fed(self) -> dict[str, Sharding]:
        """Where each input lies."""
        _, types = leaf_types(self.graph)
        return {name: self.placement.fed(name, each) for name, each in types.items()}

    @cached_property
    def numerics(self) -> Numerics:
        """The floats of its values."""
        return Numerics.of(self.graph, self.precision)

    @cached_property
    def copies(self) -> Arguments:
        """The copies of parameters in bfloat16, by the names of these; on one device."""
        types, _ = leaf_types(self.graph)
        if not isinstance(self.placement, OneDevice):
            return {}
        return {
            name: jax.ShapeDtypeStruct(
                concrete_shape(types[name].shape), BFLOAT16, sharding=self.formats[name]
            )
            for name in sorted(self.numerics.copied)
        }

    @property
    def copied_bytes(self) -> int:
        """What the copies take."""
        types, _ = leaf_types(self.graph)
        shapes = (concrete_shape(types[name].shape) for name in self.copies)
        return sum(BFLOAT16.itemsize * prod(shape) for shape in shapes)

    @cached_property
    def rounded(self) -> Callable[[dict[str, jax.Array]], dict[str, jax.Array]]:
        """From the parameters that have copies to these."""
        formats = {name: self.formats[name] for name in self.copies}
        return jax.jit(_in_bfloat16, out_shardings=formats)

    def compiled(self) -> Compiled:
        """The step as a program of the devices; raises `DeviceError`."""
        jitted, arguments = self._traceable(self.formats)
        with explained():
            return jitted.lower(*arguments).compile(compiler_options=self._options)

    @property
    def _options(self) -> dict[str, str | int | bool]:
        """What XLA is told of the compilation."""
        options: dict[str, str | int | bool] = {}
        if self._is_launched_once:
            options |= CUDA_GRAPHS
        if self.precision is ComputePrecision.BF16:
            options |= ROUNDED
        if self.placement.platform == "gpu":
            options |= WHOLE_SUMS
        return options

    @property
    def _is_launched_once(self) -> bool:
        """Whether it is worth a CUDA graph that has the convolutions too."""
        convolutions = sum(isinstance(value.op, Convolution) for value in self.graph.values)
        is_worth = bool(self.graph.updates) or convolutions >= MANY
        return is_worth and self.placement.platform == "gpu"

    def exported(self) -> str:
        """The step in StableHLO, which has no layouts."""
        jitted, arguments = self._traceable(self.kept)
        return export.export(jitted)(*arguments).mlir_module()

    def _traceable(
        self, places: Mapping[str, Format] | Mapping[str, Sharding]
    ) -> tuple[Wrapped, tuple[Arguments, Arguments, Arguments]]:
        """The function (updated, constant, fed) to outputs and updates, and its arguments.

        What it updates is donated: the new values take the memory of the old ones.
        """
        graph = self.graph
        kept, fed = leaf_types(graph)
        arguments = _arguments(kept, places)
        updated = {name: each for name, each in arguments.items() if name in graph.updates}
        constant = {name: each for name, each in arguments.items() if name not in graph.updates}
        constant |= {copy_of(name): each for name, each in self.copies.items()}
        outputs = {
            name: self.placement.given(name, value.type) for name, value in graph.outputs.items()
        }
        updates = {name: places[name] for name in graph.updates}
        gathered = {
            name: where
            for name, each in kept.items()
            if (where := self.placement.gathered(name, each)) is not None
        }
        step = step_function(graph, self.numerics, gathered)
        jitted = jax.jit(step, donate_argnums=0, out_shardings=(outputs, updates))
        return jitted, (updated, constant, _arguments(fed, self.fed))


def _arguments(
    types: Mapping[str, TensorType], places: Mapping[str, Format] | Mapping[str, Sharding]
) -> Arguments:
    return {
        name: jax.ShapeDtypeStruct(
            concrete_shape(each.shape), jax_type(each.dtype), sharding=places[name]
        )
        for name, each in types.items()
    }


def _in_bfloat16(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: lax.convert_element_type(each, BFLOAT16) for name, each in arrays.items()}


def _lowered(graph: Graph) -> Graph:
    """The graph in ops of the table, bodies of loops too."""
    return with_bodies(SUPPORT.supported(graph), _lowered)
