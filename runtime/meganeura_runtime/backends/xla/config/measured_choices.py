"""Choices of this backend that were made by timing steps: value, reason, card, date and figures.

`python -m benchmarks.xla_choices` times a step with and without each of them again. Everything else
of this backend reads a choice from here and has no figures of its own.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from meganeura_dsl.settings.compute_precision import ComputePrecision

F32, BF16 = ComputePrecision.F32, ComputePrecision.BF16
H100, H200 = "NVIDIA H100", "NVIDIA H200"

Options = Mapping[str, str | int | bool]
"""Options of the XLA compiler, or variables of the environment."""

Value = TypeVar("Value")

_disabled: set[str] = set()


@dataclass(frozen=True)
class Workload:
    """A step that shows the effect of a choice, as `benchmarks.peers` names it."""

    case: str
    """Model, examples a device, and `train` or `infer`: `vit_s-b16-train`."""
    precision: ComputePrecision = BF16
    devices: int = 1


@dataclass(frozen=True)
class Figure:
    """A workload timed without and with a choice."""

    workload: Workload
    card: str
    date: str
    """The date of the measurement, or of the commit that records it: `2026-11-23`."""
    without: float
    """Milliseconds a step, unless `unit` says otherwise."""
    chosen: float | None
    """The same with the choice; `None` if only `without` was recorded."""
    unit: str = "ms"
    note: str = ""
    """Differences between the measured step and the workload."""


@dataclass(frozen=True)
class Choice(Generic[Value]):
    """A choice with its value, its reason and its figures."""

    name: str
    value: Value
    """Options or threshold in force; `None` for a rewrite without any."""
    reason: str
    figures: tuple[Figure, ...] = ()
    unmeasured: tuple[Workload, ...] = ()
    """Workloads that have no recorded figures."""

    @property
    def is_on(self) -> bool:
        """True unless a measurement has disabled the choice."""
        return self.name not in _disabled

    @property
    def workloads(self) -> Sequence[Workload]:
        """Every workload by which the choice is measured."""
        return (*(figure.workload for figure in self.figures), *self.unmeasured)


@contextmanager
def disabled(choice: "AnyChoice") -> Generator[None]:
    """Compile without a choice, in every thread of this process. For measurements and tests."""
    _disabled.add(choice.name)
    try:
        yield
    finally:
        _disabled.discard(choice.name)


def _options(**options: str | int | bool) -> Options:
    return MappingProxyType(options)


@dataclass(frozen=True)
class CutSums:
    """The sums along a first axis that are computed in parts."""

    rows: range
    """Lengths of the axis that are cut."""
    parts: int
    """Preferred number of parts."""
    counts: range
    """Accepted numbers of parts; the one nearest to `parts` that divides the length is used."""


@dataclass(frozen=True)
class Alignment:
    """The axes of matrix products that are padded."""

    multiple: int
    """Padded sizes are multiples of this number of elements."""
    least: int
    """Shorter axes are not padded."""


@dataclass(frozen=True)
class SmallUpdates:
    """The parameter updates that read one shared array of a broadcast scalar."""

    size: int
    """Largest parameter in bytes: the update of one takes no longer than its kernel launch."""
    count: int
    """Least number of updates of one shape."""


@dataclass(frozen=True)
class CombinedGradients:
    """The size of the arrays that one collective sums."""

    size: int
    """Least threshold in bytes; XLA's default is the same."""
    shares: int
    """Number of collectives for all gradients where these are larger."""


# --- options of the XLA compiler -----------------------------------------------------------------

ROUNDED_STORAGE = Choice(
    "rounded-storage",
    _options(xla_allow_excess_precision=False),
    "By default XLA drops a rounding whose result is read in float32, and stores it in float32.",
    (Figure(Workload("vit_s-b16-train"), H100, "2026-11-22", 8 / 7, 1, "bytes moved, relative"),),
)
WHOLE_SUMS = Choice(
    "whole-sums",
    _options(xla_gpu_experimental_force_split_k=1),
    "By default XLA splits long contractions before it chooses a library kernel, and copies both "
    "operands to pad them for the split.",
    (Figure(Workload("vit_s-b16-train"), H100, "2026-11-22", 5.3, 4.7),),
)
LIBRARY_PRODUCTS = Choice(
    "library-products",
    _options(xla_gpu_enable_triton_gemm=False),
    "XLA times Triton's matrix products in isolation, and takes some that are slower than cuBLAS's "
    "among other kernels.",
    (
        Figure(Workload("gpt2-b4-train"), H100, "2026-11-23", 9.3, 8.2),
        Figure(Workload("vit_s-b16-train"), H200, "2026-11-23", 3.71, 3.47),
        Figure(Workload("vit_s-b16-infer", F32), H200, "2026-11-23", 5.05, 4.95),
    ),
)
RESIDUAL_WITH_NORM = Choice(
    "residual-with-norm",
    _options(xla_gpu_unsupported_enable_triton_multi_output_fusion=True),
    "A residual is stored by the kernel of the norm that reads it; otherwise each reader adds it "
    "up again, or a kernel of its own stores it.",
    (Figure(Workload("gpt2-b4-infer"), H200, "2026-11-23", 1.37, 1.36),),
)
CHANNELS_FIRST = Choice(
    "channels-first",
    _options(xla_gpu_force_conv_nchw=True),
    "cuDNN has kernels for channels last where there are matrix units or groups; for others it "
    "transposes to channels first.",
    (Figure(Workload("resnet18-b32-train", F32), H200, "2026-11-23", 12.2, 11.1),),
)
STATISTICS_HEAVY = Choice(
    "statistics-heavy",
    40,
    "A model with fewer ops per convolution than this is dominated by convolutions, whose layout "
    "and whose batch statistics then matter.",
    unmeasured=(Workload("resnet18-b32-train", F32), Workload("resnet50-b128-train", devices=2)),
)
CUDA_GRAPHS = Choice(
    "cuda-graphs",
    _options(
        xla_gpu_enable_command_buffer=(
            "FUSION,CUBLAS,CUBLASLT,CUDNN,CONVOLUTION,CUSTOM_CALL,DYNAMIC_SLICE_FUSION"
        ),
        xla_gpu_graph_min_graph_size=1,
    ),
    "By default XLA launches each convolution alone, and the kernels between two convolutions as a "
    "CUDA graph of their own.",
    (
        Figure(
            Workload("resnet50-b16-train"),
            H100,
            "2026-11-22",
            8.1,
            None,
            note="its kernels take 5.5 ms",
        ),
        Figure(Workload("resnet50-b16-train"), H200, "2026-11-28", 7.508, 3.924),
    ),
)
COLLECTIVES_IN_GRAPHS = Choice(
    "collectives-in-graphs",
    _options(
        xla_gpu_enable_command_buffer=(
            f"{CUDA_GRAPHS.value['xla_gpu_enable_command_buffer']},COLLECTIVES"
        ),
        xla_gpu_enable_latency_hiding_scheduler=False,
    ),
    "Batch statistics make about 100 small collectives a step. No work lies between the start and "
    "the end of one, so that NCCL need not expect collectives outside of the graph.",
    (Figure(Workload("resnet50-b128-train", devices=2), f"2 x {H200}", "2026-11-23", 21.8, 20.9),),
)
REDUCE_IN_PLACE = Choice(
    "reduce-in-place",
    _options(xla_disable_hlo_passes="all-reduce-contiguous"),
    "By default XLA copies all operands of a combined collective into one array, and back: one "
    "kernel for each array.",
    (
        Figure(Workload("resnet50-b128-train", devices=2), f"2 x {H200}", "2026-11-23", 21.2, 20.6),
        Figure(
            Workload("gpt2-b16-train", devices=2),
            f"2 x {H200}",
            "2026-11-23",
            35.6,
            35.0,
            note="1,024 tokens",
        ),
        Figure(Workload("vit_s-b128-train", devices=2), f"2 x {H200}", "2026-11-23", 15.4, 15.1),
    ),
)
COMBINED_GRADIENTS = Choice(
    "combined-gradients",
    CombinedGradients(30 << 20, shares=4),
    "Each collective between kernels divides their CUDA graph, so large gradients share a few.",
    (
        Figure(
            Workload("gpt2-b16-train", devices=2),
            f"2 x {H200}",
            "2026-11-23",
            37.0,
            36.8,
            note="1,024 tokens, 14 collectives and 4",
        ),
        Figure(
            Workload("gpt2-b16-train", devices=2),
            f"2 x {H200}",
            "2026-11-23",
            36.7,
            36.5,
            note="the same again",
        ),
    ),
)
UNMIXED_COLLECTIVES = Choice(
    "unmixed-collectives",
    _options(NCCL_GRAPH_MIXING_SUPPORT="0"),
    "By default NCCL records an event before and behind each collective of a CUDA graph, for "
    "collectives outside of it, of which there are none.",
    (
        Figure(
            Workload("resnet50-b128-train", devices=2), f"2 x {H200}", "2026-11-23", 20.28, 20.02
        ),
    ),
)

# --- passes --------------------------------------------------------------------------------------

CUDNN_ATTENTION = Choice(
    "cudnn-attention",
    None,
    "cuDNN's attention keeps scores on the chip, forward and backward.",
    (
        Figure(Workload("gpt2-b4-train"), H200, "2026-11-28", 6.447, 5.604),
        Figure(Workload("vit_s-b16-infer"), H200, "2026-11-28", 1.487, 0.844),
    ),
)
MATMUL_EPILOGUE = Choice(
    "matmul-epilogue",
    None,
    "cuBLASLt adds a bias and takes the approximate gelu before it rounds; otherwise a kernel "
    "reads the product from memory and writes the gelu.",
    (Figure(Workload("gpt2-b4-infer"), H200, "2026-11-23", 1.37, 1.28),),
)
ATTENTION_WEIGHTS = Choice(
    "attention-weights",
    None,
    "XLA has the matrix of scores in memory; by the logarithms of its rows the gradient would "
    "recompute what the forward pass stored.",
    (Figure(Workload("gpt2-b4-train", F32), H200, "2026-11-28", 41.047, 40.824),),
)
ONE_PASS_VARIANCE = Choice(
    "one-pass-variance",
    None,
    "Mean and variance of stored values are one kernel, and one collective on several devices. Of "
    "two readings of a row XLA makes three Triton kernels in training, which each recompute them.",
    (
        Figure(Workload("vit_s-b16-train"), H200, "2026-11-23", 3.78, 3.45),
        Figure(Workload("resnet50-b16-train"), H200, "2026-11-28", 4.034, 4.135),
    ),
)
RELU_BACKWARD_FROM_OUTPUT = Choice(
    "relu-backward-from-output",
    None,
    "The input of a relu behind a norm is not stored: XLA computes it again in a "
    "kernel of its own.",
    (Figure(Workload("resnet50-b16-train"), H200, "2026-11-28", 4.005, 3.921),),
)
FLATTEN_NORM_ROWS = Choice(
    "flatten-norm-rows",
    8,
    "XLA tiles all axes by powers of two; of 16 x 197 rows a tile has one row of each of 16 "
    "examples, of 3,152 rows it has neighbours. The value is the number of rows of a tile.",
    (
        Figure(
            Workload("vit_s-b16-infer"), H200, "2026-11-23", 0.89, 0.84, note="the kernels alone"
        ),
        Figure(Workload("vit_s-b16-infer"), H200, "2026-11-23", 0.91, 0.85),
        Figure(
            Workload("whisper_tiny-b8-infer"),
            H200,
            "2026-11-23",
            1.01,
            0.97,
            note="the kernels alone",
        ),
    ),
)

# --- barriers and storage ------------------------------------------------------------------------

JOINT_PRODUCTS = Choice(
    "joint-products",
    None,
    "The two products of a cotangent are computed before either is read: otherwise the momentum is "
    "added within one, and a weight is copied that is updated before its last reader.",
    (Figure(Workload("gpt2-b4-train"), H200, "2026-11-23", 6.68, 6.28),),
)
SHARED_SCALARS = Choice(
    "shared-scalars",
    SmallUpdates(size=1 << 15, count=3),
    "XLA makes one kernel of updates of one shape that read a common array, not of those that read "
    "a common scalar.",
    (
        Figure(
            Workload("resnet50-b16-train"),
            H200,
            "2026-11-23",
            4.09,
            4.01,
            note="915 kernels and 826",
        ),
    ),
)
COUNTERS_ON_HOST = Choice(
    "counters-on-host",
    None,
    "A state that counts steps takes a kernel launch, and a ResNet-50 has 53; the host "
    "counts them.",
    (
        Figure(
            Workload("resnet50-b16-train"),
            H200,
            "2026-11-23",
            4.01,
            3.91,
            note="826 kernels and 774",
        ),
    ),
)
NARROW_COPIES = Choice(
    "narrow-copies",
    None,
    "A product reads a bfloat16 copy of a parameter, which is rounded once and half as large.",
    (Figure(Workload("repvgg_a0-b32-train"), H200, "2026-11-23", 4.30, 4.01),),
)
COLUMN_MAJOR_LOGITS = Choice(
    "column-major-logits",
    None,
    "Rows of logits seldom begin at multiples of 16 bytes, their columns mostly do; XLA would pad "
    "both operands and copy the product.",
    (Figure(Workload("gpt2-b4-infer"), H200, "2026-11-23", 1.49, 1.37),),
)

# --- lowering ------------------------------------------------------------------------------------

ALIGNED_PRODUCTS = Choice(
    "aligned-products",
    Alignment(8, least=4096),
    "cuBLAS is fast where rows begin at multiples of 16 bytes. Long axes, as vocabularies are, get "
    "zeros in training, where logits are an operand of two products.",
    unmeasured=(Workload("gpt2-b4-train"),),
)
TANH_BY_EXPONENTIAL = Choice(
    "tanh-by-exponential",
    2.0**-6,
    "The slope of a gelu needs its tanh again, which XLA recomputes only if it is a few "
    "instructions. The value is the argument up to which two terms of the series are used.",
    (Figure(Workload("gpt2-b4-train"), H200, "2026-11-23", 6.28, 6.17),),
)
CUT_SUMS = Choice(
    "cut-sums",
    CutSums(range(512, 4097), parts=32, counts=range(8, 129)),
    "XLA uses one block for 32 columns with all their rows, which leaves most of a GPU idle. "
    "Shorter sums are quick, and longer ones XLA cuts itself.",
    unmeasured=(Workload("vit_s-b16-train"),),
)
DEPTHWISE_BY_TAPS = Choice(
    "depthwise-by-taps",
    25,
    "cuDNN has its own kernels for depthwise gradients up to this number of taps; for larger ones "
    "it launches one or two kernels for each channel.",
    (Figure(Workload("convnext_t-b16-train", F32), H200, "2026-11-23", 25.9, 19.5),),
)

# --- session -------------------------------------------------------------------------------------

EAGER_OUTPUTS = Choice(
    "eager-outputs",
    1 << 12,
    "Outputs of at most this many bytes, as losses are, are copied to the host behind their step. "
    "The next step waits for larger copies: 10 us for 64,000 bytes.",
    unmeasured=(Workload("gpt2-b4-train"),),
)

AnyChoice = (
    Choice[Options]
    | Choice[None]
    | Choice[int]
    | Choice[float]
    | Choice[CutSums]
    | Choice[Alignment]
    | Choice[SmallUpdates]
    | Choice[CombinedGradients]
)
CHOICES: tuple[AnyChoice, ...] = (
    ROUNDED_STORAGE,
    WHOLE_SUMS,
    LIBRARY_PRODUCTS,
    RESIDUAL_WITH_NORM,
    CHANNELS_FIRST,
    STATISTICS_HEAVY,
    CUDA_GRAPHS,
    COLLECTIVES_IN_GRAPHS,
    REDUCE_IN_PLACE,
    COMBINED_GRADIENTS,
    UNMIXED_COLLECTIVES,
    CUDNN_ATTENTION,
    MATMUL_EPILOGUE,
    ATTENTION_WEIGHTS,
    ONE_PASS_VARIANCE,
    RELU_BACKWARD_FROM_OUTPUT,
    FLATTEN_NORM_ROWS,
    JOINT_PRODUCTS,
    SHARED_SCALARS,
    COUNTERS_ON_HOST,
    NARROW_COPIES,
    COLUMN_MAJOR_LOGITS,
    ALIGNED_PRODUCTS,
    TANH_BY_EXPONENTIAL,
    CUT_SUMS,
    DEPTHWISE_BY_TAPS,
    EAGER_OUTPUTS,
)
"""Every choice, in the order of this file."""
