"""Costs of kernels: memory traffic, arithmetic and launches, and the time a device needs.

    seconds = launches launch + max(bytes / bandwidth, flops / throughput)

An op says how much arithmetic it is (`Op.flops`). Which op is a kernel and which is done in the
kernel of another is said in `kernel_cost_model`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS
from meganeura_dsl.ir.types import TensorType, size_in_bytes


@dataclass(frozen=True)
class DeviceModel:
    """The parts of a device that choices depend on: three numbers, and optional kernels.

    The numbers are what was achieved on an NVIDIA H200: kernels of a step follow each other in
    3 us, copies move 2.5 TB/s, convolutions compute 35 TFLOP/s. Choices depend on their ratios:
    14 operations for a byte, and 7.5 MB for a launch.
    """

    launch: float = 3e-6
    bandwidth: float = 2.5e12
    throughput: float = 35e12
    winograd: tuple[int, ...] = ()
    """The m of each form F(m x m, 3 x 3) of Winograd's convolution that it has kernels for."""
    largest: int = 128 << 20
    """Bytes of the largest tensor that it takes; every WebGPU takes as much."""
    narrowest: int = 16
    """Columns of a matrix below which a product wastes most of what its kernel could compute."""


DEFAULT_DEVICE = DeviceModel()
GPU = replace(DEFAULT_DEVICE, winograd=tuple(POINTS))
"""A device that runs our kernels on many cores."""
SOFTWARE = DeviceModel(
    launch=4e-5, bandwidth=3e9, throughput=4.4e10, winograd=tuple(POINTS), narrowest=32
)
"""Software Vulkan: what Mesa's llvmpipe reaches on two cores."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes moved, arithmetic done, kernels launched."""

    bytes: int = 0
    flops: int = 0
    launches: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.bytes + other.bytes, self.flops + other.flops, self.launches + other.launches
        )

    def seconds(self, device: DeviceModel) -> float:
        """The time the model gives it."""
        moving = self.bytes / device.bandwidth
        return self.launches * device.launch + max(moving, self.flops / device.throughput)


def kernel_cost(op: Op, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """The cost of an op that is a kernel by itself."""
    moved = sum(map(size_in_bytes, (*operands, result)))
    return Cost(moved, op.flops(operands, result), 1)
