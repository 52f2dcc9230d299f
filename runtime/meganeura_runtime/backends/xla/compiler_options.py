"""What XLA is told of a compilation, beside the program."""

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.xla.placement import Placement

Options = dict[str, str | int | bool]

ROUNDED: Options = {"xla_allow_excess_precision": False}
"""What is stored in bfloat16 is rounded where it is computed.

By itself XLA drops a rounding whose result float32 is computed from, and stores the float32 that
was to be rounded: a training step of ViT-S moves a seventh more bytes so.
"""
LIBRARIES: Options = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_experimental_force_split_k": 1,
}
"""Products in bfloat16 are cuBLAS's, which cuts long sums itself where that is faster.

XLA would cut them first, in parts of one length, for which it copies both factors to pad them.
A training step of ViT-S takes 4.8 ms on an H100 instead of 5.3, one of GPT-2 8.2 instead of 8.8.
"""
CUDA_GRAPHS: Options = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION"
    ),
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA by which a CUDA graph has convolutions too, which are custom calls.

A training step of RepVGG-A0, of 1,000 kernels, takes 5.3 ms with them and 6.4 without on an H100;
steps of few kernels take the same within 1 %, and inference, which has few, up to 5 % more.
"""
MANY = 32
"""Convolutions from which on inference is one CUDA graph too.

That of ResNet-50, which has 53, takes 1.80 ms on an H100 where they are launched one by one, and
its kernels run for 1.15 of them; those of ResNet-18 and RepVGG-A0, which have 20 and 22, run for
nearly all of the time.
"""


def compiler_options(graph: Graph, precision: ComputePrecision, placement: Placement) -> Options:
    """The options of a graph's compilation in a precision for some devices."""
    options: Options = {}
    is_gpu = placement.platform == "gpu"
    if precision is ComputePrecision.BF16:
        options |= ROUNDED
        options |= LIBRARIES if is_gpu else {}
    if is_gpu and _is_launched_once(graph):
        options |= CUDA_GRAPHS
    return options


def _is_launched_once(graph: Graph) -> bool:
    """Whether it is worth a CUDA graph that has the convolutions too."""
    convolutions = sum(isinstance(value.op, Convolution) for value in graph.values)
    return bool(graph.updates) or convolutions >= MANY
