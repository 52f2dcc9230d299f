"""What a node costs on a device: one launch, and the slower of its memory traffic and arithmetic.

    seconds = launch + max(bytes / bandwidth, flops / throughput)

The model counts each op as one kernel. It is no prediction: a planner that fuses elementwise ops
launches fewer. It is the same for both sides of a rewrite, which is what a choice needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from meganeura_dsl.graph.core import Graph, Leaf, Op
from meganeura_dsl.ops import (
    Broadcast,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    MatMul,
    Reshape,
    Slice,
    StopGradient,
)
from meganeura_dsl.ops.fused.core import Fused
from meganeura_dsl.ops.rules import concrete, concrete_shape
from meganeura_dsl.optimize.snapshot import Snapshot
from meganeura_dsl.shapes.tensor import TensorType


@dataclass(frozen=True)
class DeviceModel:
    """What choices depend on: three numbers of a device, and kernels that not all have."""

    launch: float = 3e-6
    bandwidth: float = 500e9
    throughput: float = 10e12
    winograd: tuple[int, ...] = ()
    """The m of each form F(m x m, 3 x 3) of Winograd's convolution that it has kernels for."""


@dataclass(frozen=True)
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


VIEWS = (Reshape, Broadcast, Slice, StopGradient)
"""Ops that a reader of their result can look through, so that they move nothing."""


@cache
def size_in_bytes(of: TensorType) -> int:
    """The bytes of a tensor in memory."""
    return prod(concrete_shape(of.shape)) * of.dtype.bytes


def node_cost(op: Op, read: int, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """The cost of one op that reads so many bytes; leaves are free.

    A view is all but free: of two graphs that are as good, the one with fewer views is chosen.
    """
    if isinstance(op, Leaf | Constant):
        return Cost()
    if isinstance(op, VIEWS):
        return Cost(flops=1)
    return Cost(read + size_in_bytes(result), flops(op, operands, result), 1)


def flops(op: Op, operands: Sequence[TensorType], result: TensorType) -> int:
    """Additions and multiplications: two for each product of a contraction, one per element."""
    out = prod(concrete_shape(result.shape))
    match op:
        case MatMul():
            rows = concrete_shape(operands[1].shape)
            return 2 * out * (rows[-1] if op.transpose_right else rows[-2])
        case Conv():
            return 2 * out * prod(concrete_shape(operands[1].shape)[1:])
        case ConvInputGradient():
            per_element = prod(concrete_shape(operands[0].shape)[1:])
            return 2 * prod(concrete_shape(operands[1].shape)) * per_element
        case ConvWeightGradient():
            channels = concrete(result.shape[0])
            return 2 * prod(concrete_shape(operands[1].shape)) * out // channels
        case Fused():
            return op.flops(operands, result)
        case _:
            largest = max((prod(concrete_shape(of.shape)) for of in operands), default=out)
            return max(out, largest)


def graph_cost(graph: Graph) -> Cost:
    """The cost of one run of a graph."""
    total = Cost()
    read = {value.id: size_in_bytes(value.type) for value in graph.values}
    for value in graph.values:
        if isinstance(value.op, Broadcast | Reshape):
            read[value.id] = min(read[value.id], read[value.operands[0].id])
        distinct = {operand.id for operand in value.operands}
        types = [operand.type for operand in value.operands]
        traffic = sum(read[number] for number in distinct)
        total += node_cost(value.op, traffic, types, value.type)
    return total


def snapshot_costs(found: Snapshot, weigh: Callable[[Cost], float]) -> list[float]:
    """The weight of every node of an e-graph."""
    read = _read_bytes(found)
    weights: list[float] = []
    for node in found.nodes:
        types = [found.types[operand] for operand in node.operands]
        traffic = sum(read[operand] for operand in set(node.operands))
        weights.append(weigh(node_cost(node.op, traffic, types, found.types[node.owner])))
    return weights


def _read_bytes(found: Snapshot) -> list[int]:
    """The bytes it takes to read each class: a repeated tensor is read through its source."""
    read = [size_in_bytes(of) for of in found.types]
    for node in found.nodes:
        if isinstance(node.op, Broadcast):
            source = size_in_bytes(found.types[node.operands[0]])
            read[node.owner] = min(read[node.owner], source)
    return read
