"""What XLA is told of a compilation, beside the program."""

from meganeura_dsl.ir.graph import Graph, by_application
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.xla.device.placement import Placement, SeveralDevices

Options = dict[str, str | int | bool]

ROUNDED: Options = {"xla_allow_excess_precision": False}
"""What is stored in bfloat16 is rounded where it is computed.

By itself XLA drops a rounding whose result float32 is computed from, and stores the float32 that
was to be rounded: a training step of ViT-S moves a seventh more bytes so.
"""
WHOLE_SUMS: Options = {"xla_gpu_experimental_force_split_k": 1}
"""Long sums of products are not cut before it is chosen what computes them.

XLA would cut them in parts of one length, and copy both factors to pad them for it. A training step
of ViT-S takes 4.7 ms on an H100 instead of 5.3.
"""
LIBRARIES: Options = {"xla_gpu_enable_triton_gemm": False}
"""Products are cuBLAS's.

XLA times those of Triton beside them, each for itself, and takes some that are slower among others:
GPT-2's training step takes 8.2 ms on an H100, and 9.3 so; ViT-S's 3.5 ms on an H200, and 3.7. In
float32 an inference of ViT-S takes 4.95 ms on an H200, and 5.05 so.
"""
ROWS_TOGETHER: Options = {"xla_gpu_unsupported_enable_triton_multi_output_fusion": True}
"""A residual is stored by the kernel of the norm that is computed of it.

An inference of GPT-2 takes 1.36 ms on an H200 instead of 1.37.
"""
CHANNELS_FIRST: Options = {"xla_gpu_force_conv_nchw": True}
"""Images lie with their channels first, for a model of many convolutions in float32.

cuDNN has kernels for channels last where there are matrix units or groups, and puts others in this
order: a training step of ResNet-18, 32 images, takes 11.1 ms on an H200, and 12.2 so.
"""
CUDA_GRAPHS: Options = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUDNN,CONVOLUTION,CUSTOM_CALL,DYNAMIC_SLICE_FUSION"
    ),
    "xla_gpu_graph_min_graph_size": 1,
}
"""All kernels of a step are launched as one CUDA graph.

By itself XLA launches each convolution alone, and what lies between two as a graph of its own: a
training step of ResNet-50, 16 images, takes 8.1 ms on an H100 for 5.5 ms of kernels.
"""
COLLECTIVES: Options = {
    "xla_gpu_enable_command_buffer": f"{CUDA_GRAPHS['xla_gpu_enable_command_buffer']},COLLECTIVES",
    "xla_gpu_enable_latency_hiding_scheduler": False,
}
"""Collectives too are launched by CUDA graphs, and none lies across the end of one.

A training step of ResNet-50, 128 images on each of two H200, has 100 of them for the statistics of
batches, and takes 20.9 ms instead of 21.8. Large ones, as of other models, gain nothing. No work
lies between the start of one and its end, as XLA's scheduler would have it: with it a step takes as
long, and NCCL could not be told that collectives are not mixed (`nccl.py`).
"""
IN_PLACE: Options = {"xla_disable_hlo_passes": "all-reduce-contiguous"}
"""What one collective sums stays where it is.

By itself XLA copies all of it into one array first, and out of it behind: a kernel for each array.
Steps on two H200, with and without: ResNet-50 21.2 ms and 20.6, GPT-2 35.6 and 35.0, ViT-S 15.4 and
15.1.
"""
COMBINED, SHARES = 30 << 20, 4
"""Bytes that XLA lets one collective sum, and how many collectives may share large gradients.

Each that lies between kernels divides their CUDA graph. A training step of GPT-2, 16 x 1,024 tokens
on each of two H200, took 36.8 and 36.5 ms by 4 collectives, 37.0 and 36.7 by 14.
"""
DIVIDED = 40
"""Ops for each convolution of a model that has enough of them for its statistics to matter."""


def compiler_options(graph: Graph, precision: ComputePrecision, placement: Placement) -> Options:
    """The options of a graph's compilation in a precision for some devices."""
    options: Options = {}
    is_gpu = placement.platform == "gpu"
    convolutions = count_convolutions(graph)
    if precision is ComputePrecision.BF16:
        options |= ROUNDED
        options |= WHOLE_SUMS if is_gpu else {}
    if is_gpu:
        options |= CUDA_GRAPHS
        is_divided = convolutions * DIVIDED > len(graph.values)
        if _shares_data(placement):
            options |= IN_PLACE
            options |= COLLECTIVES if is_divided else {}
            options |= {"xla_gpu_all_reduce_combine_threshold_bytes": _combined(graph)}
        if precision is not ComputePrecision.TF32:
            options |= LIBRARIES
        if precision is ComputePrecision.F32 and is_divided and not _has_groups(graph):
            options |= CHANNELS_FIRST
    if is_gpu and precision is ComputePrecision.BF16 and not graph.updates:
        options |= ROWS_TOGETHER
    return options


def _shares_data(placement: Placement) -> bool:
    """Whether several devices share a batch, and each has all parameters."""
    return isinstance(placement, SeveralDevices) and placement.sharding is DeviceSharding.DATA


def _combined(graph: Graph) -> int:
    """Bytes of gradients that one collective sums at most."""
    trained = (
        value.type
        for value in graph.values
        if isinstance(value.op, Parameter)
        and value.op.kind == "param"
        and value.op.name in graph.updates
    )
    return max(COMBINED, sum(map(size_in_bytes, trained)) // SHARES)


def _has_groups(graph: Graph) -> bool:
    """Whether a convolution has groups, as those of channels for themselves are."""
    ops = [value.op for value in graph.values]
    return any(isinstance(op, Convolution) and op.groups != 1 for op in ops)


def count_convolutions(graph: Graph) -> int:
    """How many convolutions a graph has, with those in the bodies of loops."""
    ops = [results[0].op for results in by_application(graph.values)]
    within = sum(count_convolutions(body.graph) for op in ops for body in op.bodies)
    return within + sum(isinstance(op, Convolution) for op in ops)
