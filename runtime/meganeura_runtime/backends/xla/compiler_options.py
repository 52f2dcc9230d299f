"""What XLA is told of a compilation, beside the program."""

from meganeura_dsl.ir.graph import Graph, by_application
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.memory_estimate import estimate_memory
from meganeura_runtime.backends.xla.placement import OneDevice, Placement, SeveralDevices

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
"""Products are cuBLAS's: GPT-2's training step takes 8.2 ms on an H100, and 9.3 with Triton's."""
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
    "xla_gpu_enable_command_buffer": f"{CUDA_GRAPHS['xla_gpu_enable_command_buffer']},COLLECTIVES"
}
"""Collectives too are launched by CUDA graphs.

A training step of ResNet-50, 128 images on each of two H200, has 100 of them for the statistics of
batches, and takes 20.9 ms instead of 21.8. Large ones, as of other models, gain nothing.
"""
CONCURRENT: Options = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Kernels of a graph that need nothing of each other run at the same time.

XLA then gives no memory to two of them, so temporaries take two to four times as much.
"""
SMALL, DIVIDED = 5 << 18, 40
"""Bytes of an op on the average up to which steps are run so, and ops for each convolution.

Small kernels do not fill a GPU: a training step of ViT-S, 16 images, takes 3.8 ms instead of 4.7 on
an H100, one of ConvNeXt-T 6.3 instead of 6.8. GPT-2, 4 x 512, takes 6 % longer; and in a ResNet
convolutions leave little that could run at the same time.
"""


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
        options |= COLLECTIVES if is_divided and _shares_data(placement) else {}
    if is_gpu and graph.updates and precision is ComputePrecision.BF16:
        options |= CONCURRENT if _is_concurrent(graph, convolutions, placement) else LIBRARIES
    return options


def _shares_data(placement: Placement) -> bool:
    """Whether several devices share a batch, and each has all parameters."""
    return isinstance(placement, SeveralDevices) and placement.sharding is DeviceSharding.DATA


def count_convolutions(graph: Graph) -> int:
    """How many convolutions a graph has, with those in the bodies of loops."""
    ops = [results[0].op for results in by_application(graph.values)]
    within = sum(count_convolutions(body.graph) for op in ops for body in op.bodies)
    return within + sum(isinstance(op, Convolution) for op in ops)


def _is_concurrent(graph: Graph, convolutions: int, placement: Placement) -> bool:
    """Whether small kernels may run at the same time."""
    is_undivided = convolutions * DIVIDED <= len(graph.values)
    is_small = estimate_memory(graph).bytes <= SMALL * len(graph.values)
    return isinstance(placement, OneDevice) and is_undivided and is_small
