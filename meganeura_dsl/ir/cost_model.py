"""What ops cost: memory traffic, arithmetic and kernels, and the time a device takes for them.

    seconds = launches launch + max(bytes / bandwidth, flops / throughput)

Which op is a kernel and which is done in the kernel of another is said in `kernels.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, MatMul
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import TensorType


@dataclass(frozen=True)
class DeviceModel:
    """What choices depend on: three numbers of a device, and kernels that not all have.

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
"""A CPU that poses as a GPU: what Mesa's llvmpipe reaches on two cores."""


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


@cache
def element_count(of: TensorType) -> int:
    """How many elements a tensor has."""
    return prod(concrete_shape(of.shape))


def size_in_bytes(of: TensorType) -> int:
    """The bytes of a tensor in memory."""
    return element_count(of) * of.dtype.bytes


def kernel_cost(op: Op, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """The cost of an op that is a kernel by itself."""
    moved = sum(map(size_in_bytes, (*operands, result)))
    return Cost(moved, flops(op, operands, result), 1)


def flops(op: Op, operands: Sequence[TensorType], result: TensorType) -> int:
    """Additions and multiplications: two for each product of a contraction, one per element."""
    out = element_count(result)
    match op:
        case MatMul():
            rows = concrete_shape(operands[1].shape)
            return 2 * out * (rows[-1] if op.transpose_right else rows[-2])
        case Conv():
            return 2 * out * (element_count(operands[1]) // concrete(operands[1].shape[0]))
        case ConvInputGradient():
            per_element = element_count(operands[0]) // concrete(operands[0].shape[0])
            return 2 * element_count(operands[1]) * per_element
        case ConvWeightGradient():
            return 2 * element_count(operands[1]) * out // concrete(result.shape[0])
        case Fused():
            return op.flops(operands, result)
        case _:
            return max(out, *map(element_count, operands)) if operands else out
