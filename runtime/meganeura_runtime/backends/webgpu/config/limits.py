"""The limits of an adapter, as data, so that planning needs no adapter."""

from dataclasses import dataclass, field, replace
from enum import Enum

from meganeura_runtime.backends.webgpu.config.kernel_config import (
    DEFAULT_FUSION,
    FusionConfig,
    KernelConfig,
    KernelConfigs,
)


class Style(Enum):
    """The style of kernels: for the many cores of a GPU, or for software Vulkan."""

    GPU = "gpu"
    SOFTWARE_VULKAN = "cpu-adapter"


class MatrixDialect(Enum):
    """The form in WGSL of operations on matrices of a subgroup."""

    CHROMIUM = "chromium_experimental_subgroup_matrix"
    PLAIN = "plain"
    """Loops over the elements, for adapters without such operations: to test, not to be fast."""


@dataclass(frozen=True, slots=True)
class MatrixUnits:
    """Matrix units of an adapter: squares of f16, of which products are summed in f32."""

    dialect: MatrixDialect
    side: int = 16
    """Rows and columns of a square."""
    lanes: int = 32
    """Invocations of a subgroup."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of an adapter that a plan must respect; the defaults are those of WebGPU."""

    buffer_bytes: int = 256 << 20
    binding_bytes: int = 128 << 20
    storage_buffers: int = 8
    offset_alignment: int = 256
    workgroups: int = 65_535
    invocations: int = 256
    workgroup_bytes: int = 16 << 10
    lanes: int = 0
    """Lanes of a subgroup whose shuffles work; 0 where that is not known."""
    half_floats: bool = False
    """True if the adapter has `shader-f16`."""
    matrix_units: MatrixUnits | None = None
    """Units that contractions are computed by, in f16; none where they are computed in f32."""


PORTABLE = DeviceLimits(half_floats=True)
"""No more than WebGPU promises, and f16: what a plan for any adapter may need."""
LEAST_FOR_MATRICES = 32 << 10
"""Workgroup memory in bytes that holds a tile for matrix units."""
WITH_MATRICES = replace(
    PORTABLE,
    workgroup_bytes=LEAST_FOR_MATRICES,
    matrix_units=MatrixUnits(MatrixDialect.CHROMIUM),
)
"""The limits of a plan for any adapter with matrix units."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target that kernels are written for."""

    limits: DeviceLimits = DeviceLimits()
    style: Style = Style.GPU
    configs: KernelConfigs = field(default_factory=dict[str, KernelConfig], hash=False)
    """The contractions that are computed otherwise than the planner would have it."""
    fusing: FusionConfig = DEFAULT_FUSION
