"""Compilation of a graph for a placement of its arrays."""

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
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.xla.analysis.barriers import Barriers
from meganeura_runtime.backends.xla.analysis.numerics import BFLOAT16, Numerics
from meganeura_runtime.backends.xla.analysis.partial_sums import PartialSums
from meganeura_runtime.backends.xla.analysis.step_counters import counters_of, without_updates
from meganeura_runtime.backends.xla.config.measured_choices import (
    COUNTERS_ON_HOST,
    CUT_SUMS,
    TANH_BY_EXPONENTIAL,
)
from meganeura_runtime.backends.xla.device.compiler_options import (
    compiler_options,
    count_convolutions,
)
from meganeura_runtime.backends.xla.device.cudnn import create_handles
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.device.layouts import columns_first, layout_of
from meganeura_runtime.backends.xla.device.placement import OneDevice, Placement
from meganeura_runtime.backends.xla.lowering.contraction import has_aligned_columns
from meganeura_runtime.backends.xla.lowering.element_types import jax_type
from meganeura_runtime.backends.xla.lowering.table import IN_BFLOAT16, ON_ONE_GPU, Lowering
from meganeura_runtime.backends.xla.passes.pipeline import PassTarget, run_passes
from meganeura_runtime.backends.xla.step import ArrayKey, step_function

Arguments = dict[ArrayKey, jax.ShapeDtypeStruct]
Inputs = dict[str, jax.ShapeDtypeStruct]


@dataclass(frozen=True, eq=False)
class Program:
    """A graph with its precision and the placement of its arrays."""

    graph: Graph
    """A graph in ops of the lowering table."""
    precision: ComputePrecision
    placement: Placement

    @staticmethod
    def of(graph: Graph, precision: ComputePrecision, placement: Placement) -> "Program":
        """Returns the program of any graph; raises `ProblemError` for an unsupported op."""
        graph = run_passes(graph, PassTarget(precision, placement.platform))
        return Program(graph, precision, placement)

    @cached_property
    def persistent(self) -> dict[str, Sharding]:
        """Sharding of each parameter and state."""
        types, _ = leaf_types(self.graph)
        return {name: self.placement.persistent(name, each) for name, each in types.items()}

    @cached_property
    def formats(self) -> dict[str, Format]:
        """Sharding and layout of each parameter and state."""
        types, _ = leaf_types(self.graph)
        platform = self.placement.platform
        return {
            name: Format(layout_of(each, platform, self.precision), self.persistent[name])
            for name, each in types.items()
        }

    @cached_property
    def fed(self) -> dict[str, Sharding]:
        """Sharding of each input."""
        _, types = leaf_types(self.graph)
        return {name: self.placement.fed(name, each) for name, each in types.items()}

    @cached_property
    def numerics(self) -> Numerics:
        """Float types of the values."""
        found = Numerics.of(self.graph, self.precision)
        return replace(found, is_on_one_gpu=self._is_on_one_gpu)

    @property
    def given(self) -> dict[str, Sharding | Format]:
        """Sharding of each output, with its layout if that is not row-major."""
        found: dict[str, Sharding | Format] = {}
        for name, value in self.graph.outputs.items():
            sharding = self.placement.given(name, value.type)
            is_column_major = self.numerics.has_unaligned_output(value) and has_aligned_columns(
                value
            )
            found[name] = (
                Format(columns_first(value.type), sharding) if is_column_major else sharding
            )
        return found

    @cached_property
    def copies(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Type of the bfloat16 copy of each parameter that has one; its placement is the same."""
        types, _ = leaf_types(self.graph)
        return {
            name: jax.ShapeDtypeStruct(
                concrete_shape(types[name].shape), BFLOAT16, sharding=self.formats[name]
            )
            for name in sorted(self.numerics.copied)
        }

    @property
    def copied_bytes(self) -> int:
        """Size of the copies on one device, in bytes."""
        types, _ = leaf_types(self.graph)
        shapes = (
            self.persistent[name].shard_shape(concrete_shape(types[name].shape))
            for name in self.copies
        )
        return sum(BFLOAT16.itemsize * prod(shape) for shape in shapes)

    @cached_property
    def rounded(self) -> Callable[[dict[str, jax.Array]], dict[str, jax.Array]]:
        """Function from parameters to their copies."""
        formats = {name: self.formats[name] for name in self.copies}
        return jax.jit(_in_bfloat16, out_shardings=formats)

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """Increments by name of the states that the host counts, not a step that is run."""
        return counters_of(self.graph) if COUNTERS_ON_HOST.is_on else {}

    def compiled(self) -> Compiled:
        """Returns the compiled step without its counters; raises `DeviceError`."""
        jitted, arguments = self._traceable(
            without_updates(self.graph, self.counters), self.formats, self.given
        )
        options = compiler_options(self.graph, self.precision, self.placement)
        with explained():
            if self.placement.platform == "gpu" and count_convolutions(self.graph):
                create_handles(self.placement.devices)
            return jitted.lower(*arguments).compile(compiler_options=options)

    def exported(self) -> str:
        """Returns the step in StableHLO, which has no layouts."""
        jitted, arguments = self._traceable(self.graph, self.persistent, {})
        return export.export(jitted)(*arguments).mlir_module()

    @property
    def _lowerings(self) -> Mapping[type[Op], Lowering]:
        """Overrides of the lowering table."""
        is_narrow = self.precision is ComputePrecision.BF16
        return {
            **(IN_BFLOAT16 if is_narrow and TANH_BY_EXPONENTIAL.is_on else {}),
            **(ON_ONE_GPU if self._is_on_one_gpu and CUT_SUMS.is_on else {}),
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
    ) -> tuple[Wrapped, tuple[Arguments, Arguments, Inputs]]:
        """Returns the function (updated, constant, inputs) to results, and its arguments.

        Updated arrays are donated: the new values take the memory of the old ones.
        """
        persistent, fed = leaf_types(graph)
        arguments = _arguments(persistent, formats)
        held = {ArrayKey(name): each for name, each in arguments.items()}
        held |= {ArrayKey(name, is_copy=True): each for name, each in self.copies.items()}
        updated = {key: each for key, each in held.items() if key.name in graph.updates}
        constant = {key: each for key, each in held.items() if key.name not in graph.updates}
        outputs = {
            name: given.get(name, self.placement.given(name, value.type))
            for name, value in graph.outputs.items()
        }
        updates = {key: formats[key.name] for key in updated}
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
) -> Inputs:
    return {
        name: jax.ShapeDtypeStruct(
            concrete_shape(each.shape), jax_type(each.dtype), sharding=formats[name]
        )
        for name, each in types.items()
    }


def _in_bfloat16(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: lax.convert_element_type(each, BFLOAT16) for name, each in arrays.items()}
