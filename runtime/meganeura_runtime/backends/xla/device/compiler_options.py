"""Options of the XLA compiler for a graph on some devices."""

from meganeura_dsl.ir.graph import Graph, by_application
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla.config.measured_choices import (
    CHANNELS_FIRST,
    COLLECTIVES_IN_GRAPHS,
    COMBINED_GRADIENTS,
    CUDA_GRAPHS,
    LIBRARY_PRODUCTS,
    REDUCE_IN_PLACE,
    RESIDUAL_WITH_NORM,
    ROUNDED_STORAGE,
    STATISTICS_HEAVY,
    WHOLE_SUMS,
    Choice,
    Options,
)
from meganeura_runtime.backends.xla.device.placement import Placement, SeveralDevices

CompilerOptions = dict[str, str | int | bool]
COMBINE_THRESHOLD = "xla_gpu_all_reduce_combine_threshold_bytes"


def compiler_options(
    graph: Graph, precision: ComputePrecision, placement: Placement
) -> CompilerOptions:
    """Returns the options for a graph that has been through all passes."""
    options: CompilerOptions = {}
    for choice in _choices(graph, precision, placement):
        if choice.is_on:
            options |= choice.value
    if placement.platform == "gpu" and _shares_data(placement) and COMBINED_GRADIENTS.is_on:
        options[COMBINE_THRESHOLD] = _combined_bytes(graph)
    return options


def _choices(
    graph: Graph, precision: ComputePrecision, placement: Placement
) -> list[Choice[Options]]:
    """Returns the choices that apply; a later one overrides options of an earlier one."""
    is_narrow = precision is ComputePrecision.BF16
    found = [ROUNDED_STORAGE] if is_narrow else []
    if placement.platform != "gpu":
        return found
    is_heavy = _is_statistics_heavy(graph)
    if is_narrow:
        found.append(WHOLE_SUMS)
    found.append(CUDA_GRAPHS)
    if _shares_data(placement):
        found.append(REDUCE_IN_PLACE)
        found += [COLLECTIVES_IN_GRAPHS] if is_heavy else []
    if precision is not ComputePrecision.TF32:
        found.append(LIBRARY_PRODUCTS)
    if precision is ComputePrecision.F32 and is_heavy and not _has_groups(graph):
        found.append(CHANNELS_FIRST)
    if is_narrow and not graph.updates:
        found.append(RESIDUAL_WITH_NORM)
    return found


def _is_statistics_heavy(graph: Graph) -> bool:
    ops_per_convolution = STATISTICS_HEAVY.value
    return STATISTICS_HEAVY.is_on and count_convolutions(graph) * ops_per_convolution > len(
        graph.values
    )


def _shares_data(placement: Placement) -> bool:
    """True for data parallelism: devices share a batch, and each has all parameters."""
    return isinstance(placement, SeveralDevices) and placement.sharding is DeviceSharding.DATA


def _combined_bytes(graph: Graph) -> int:
    """Returns the most bytes of gradients that one collective sums."""
    trained = (
        value.type
        for value in graph.values
        if isinstance(value.op, Parameter)
        and value.op.kind == "param"
        and value.op.name in graph.updates
    )
    combined = COMBINED_GRADIENTS.value
    return max(combined.size, sum(map(size_in_bytes, trained)) // combined.shares)


def _has_groups(graph: Graph) -> bool:
    ops = [value.op for value in graph.values]
    return any(isinstance(op, Convolution) and op.groups != 1 for op in ops)


def count_convolutions(graph: Graph) -> int:
    """Returns the number of convolutions of a graph, including bodies of loops."""
    ops = [results[0].op for results in by_application(graph.values)]
    within = sum(count_convolutions(body.graph) for op in ops for body in op.bodies)
    return within + sum(isinstance(op, Convolution) for op in ops)
