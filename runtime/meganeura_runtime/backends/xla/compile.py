"""A graph compiled for where its arrays lie."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import jax
from jax import export, lax
from jax.experimental.layout import Format
from jax.sharding import Sharding
from jax.stages import Compiled, Wrapped

from meganeura_dsl.ir.graph import Graph, Op
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.loop_bodies import with_bodies
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.analysis.partial_sums import PartialSums
from meganeura_runtime.backends.xla.analysis.step_counters import counters_of, without_updates
from meganeura_runtime.backends.xla.device.compiler_options import (
    compiler_options,
    count_convolutions,
)
from meganeura_runtime.backends.xla.device.cudnn import create_handles
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.device.layouts import columns_first, layout_of
from meganeura_runtime.backends.xla.device.placement import OneDevice, Placement
from meganeura_runtime.backends.xla.lowering.contraction import has_even_columns
from meganeura_runtime.backends.xla.lowering.element_types import jax_type
from meganeura_runtime.backends.xla.lowering.table import IN_BFLOAT16, ON_ONE_GPU, Lowering
from meganeura_runtime.backends.xla.passes.flatten_norm_rows import with_joined_rows
from meganeura_runtime.backends.xla.passes.fuse_attention import CUDNN, fuse_attention, is_taken
from meganeura_runtime.backends.xla.passes.fuse_matmul_epilogue import with_finished_products
from meganeura_runtime.backends.xla.passes.one_pass_variance import with_one_pass_variances
from meganeura_runtime.backends.xla.passes.relu_backward_from_output import with_masks_of_results
from meganeura_runtime.backends.xla.passes.reuse_attention_weights import with_kept_weights
from meganeura_runtime.backends.xla.passes.support import SUPPORT
from meganeura_runtime.backends.xla.step import copy_of, step_function

Arguments = dict[str, jax.ShapeDtypeStruct]


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
            if not graph.updates:
                graph = with_finished_products(graph)
        if precision is not ComputePrecision.BF16:
            graph = with_kept_weights(graph)
        graph = _lowered(graph)
        if precision is ComputePrecision.BF16:
            graph = with_one_pass_variances(graph, _rounded(graph))
            graph = with_masks_of_results(graph, _rounded(graph))
            if placement.platform == "gpu" and not graph.updates:
                graph = with_joined_rows(graph)
        return Program(graph, precision, placement)

    @cached_property
    def persistent(self) -> dict[str, Sharding]:
        """Where each parameter and state lies."""
        types, _ = leaf_types(self.graph)
        return {name: self.placement.persistent(name, each) for name, each in types.items()}

    @cached_property
    def formats(self) -> dict[str, Format]:
        """Where each parameter and state lies, and in which order of its axes."""
        types, _ = leaf_types(self.graph)
        platform = self.placement.platform
        return {
            name: Format(layout_of(each, platform, self.precision), self.persistent[name])
            for name, each in types.items()
        }

    @cached_property
    def fed(self) -> dict[str, Sharding]:
        """Where each input lies."""
        _, types = leaf_types(self.graph)
        return {name: self.placement.fed(name, each) for name, each in types.items()}

    @cached_property
    def numerics(self) -> Numerics:
        """The floats of its values."""
        found = Numerics.of(self.graph, self.precision)
        return replace(found, is_on_one_gpu=self._is_on_one_gpu)

    @property
    def given(self) -> dict[str, Sharding | Format]:
        """Where each output lies, and in which order of its axes if not in rows."""
        found: dict[str, Sharding | Format] = {}
        for name, value in self.graph.outputs.items():
            sharding = self.placement.given(name, value.type)
            is_turned = self.numerics.has_odd_rows(value) and has_even_columns(value)
            found[name] = Format(columns_first(value.type), sharding) if is_turned else sharding
        return found

    @cached_property
    def copies(self) -> Arguments:
        """The copies of parameters in bfloat16, by the names of these, which they lie like."""
        types, _ = leaf_types(self.graph)
        return {
            name: jax.ShapeDtypeStruct(
                concrete_shape(types[name].shape), BFLOAT16, sharding=self.formats[name]
            )
            for name in sorted(self.numerics.copied)
        }

    @property
    def copied_bytes(self) -> int:
        """What the copies take on a device."""
        types, _ = leaf_types(self.graph)
        shapes = (
            self.persistent[name].shard_shape(concrete_shape(types[name].shape))
            for name in self.copies
        )
        return sum(BFLOAT16.itemsize * prod(shape) for shape in shapes)

    @cached_property
    def rounded(self) -> Callable[[dict[str, jax.Array]], dict[str, jax.Array]]:
        """From the parameters that have copies to these."""
        formats = {name: self.formats[name] for name in self.copies}
        return jax.jit(_in_bfloat16, out_shardings=formats)

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """What a step that is run, not exported, leaves to the host to add to some states."""
        return counters_of(self.graph)

    def compiled(self) -> Compiled:
        """The step as a program of the devices, but for counters; raises `DeviceError`."""
        jitted, arguments = self._traceable(
            without_updates(self.graph, self.counters), self.formats, self.given
        )
        options = compiler_options(self.graph, self.precision, self.placement)
        with explained():
            if self.placement.platform == "gpu" and count_convolutions(self.graph):
                create_handles(self.placement.devices)
            return jitted.lower(*arguments).compile(compiler_options=options)

    def exported(self) -> str:
        """The step in StableHLO, which has no layouts."""
        jitted, arguments = self._traceable(self.graph, self.persistent, {})
        return export.export(jitted)(*arguments).mlir_module()

    @property
    def _lowerings(self) -> Mapping[type[Op], Lowering]:
        """The ops that are lowered otherwise here."""
        is_narrow = self.precision is ComputePrecision.BF16
        return {
            **(IN_BFLOAT16 if is_narrow else {}),
            **(ON_ONE_GPU if self._is_on_one_gpu else {}),
        }

    @property
    def _barriers(self) -> Barriers:
        if not self._is_on_one_gpu:
            return Barriers()
        return Barriers.of(self.graph, self.numerics)

    @property
    def _is_on_one_gpu(self) -> bool:
        return isinstance(self.placement, OneDevice) and self.placement.platform == "gpu"

    def _traceable(
        self,
        graph: Graph,
        formats: Mapping[str, Format] | Mapping[str, Sharding],
        given: Mapping[str, Sharding | Format],
    ) -> tuple[Wrapped, tuple[Arguments, Arguments, Arguments]]:
        """The function (updated, constant, fed) to outputs and updates, and its arguments.

        What it updates is donated: the new values take the memory of the old ones.
        """
        persistent, fed = leaf_types(graph)
        arguments = _arguments(persistent, formats)
        updated = {name: each for name, each in arguments.items() if name in graph.updates}
        constant = {name: each for name, each in arguments.items() if name not in graph.updates}
        for name, each in self.copies.items():
            (updated if name in graph.updates else constant)[copy_of(name)] = each
        outputs = {
            name: given.get(name, self.placement.given(name, value.type))
            for name, value in graph.outputs.items()
        }
        updates = {name: formats[name] for name in graph.updates}
        updates |= {copy_of(name): formats[name] for name in graph.updates if name in self.copies}
        gathered = {
            name: where
            for name, each in persistent.items()
            if (where := self.placement.gathered(name, each)) is not None
        }
        sums = PartialSums.of(graph, self.placement)
        step = step_function(graph, self.numerics, gathered, self._lowerings, self._barriers, sums)
        jitted = jax.jit(step, donate_argnums=0, out_shardings=(outputs, updates))
        return jitted, (updated, constant, _arguments(fed, self.fed))


def _arguments(
    types: Mapping[str, TensorType], formats: Mapping[str, Format] | Mapping[str, Sharding]
) -> Arguments:
    return {
        name: jax.ShapeDtypeStruct(
            concrete_shape(each.shape), jax_type(each.dtype), sharding=formats[name]
        )
        for name, each in types.items()
    }


def _rounded(graph: Graph) -> frozenset[int]:
    """The values that are stored in bfloat16."""
    stored = Numerics.of(graph, ComputePrecision.BF16).stored
    return frozenset(number for number, dtype in stored.items() if dtype == BFLOAT16)


def _in_bfloat16(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: lax.convert_element_type(each, BFLOAT16) for name, each in arrays.items()}


def _lowered(graph: Graph) -> Graph:
    """The graph in ops of the table, bodies of loops too."""
    return with_bodies(SUPPORT.supported(graph), _lowered)
