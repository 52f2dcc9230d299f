"""Layout assignment: convolutions on images with the channels last (NHWC), where that is faster.

Software Vulkan fetches four neighbours in hardly more time than one. Along the channels
there are always four of them at once; along a row of pixels the taps of a kernel are shifted
against each other. So kernels and images have their channels last for the convolutions
that gain from it, and everything between these is computed in that order too.
"""

from dataclasses import dataclass, field
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value, rebuild
from meganeura_dsl.ir.ops import (
    Broadcast,
    Cast,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.broadcast import others
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering import elementwise as pointwise
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import VEC4
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast, channels_last

REPEATED: tuple[type[Op], ...] = (Broadcast, Constant)
"""Ops whose results can be read in any order."""
FEWEST_PIXELS = 256
"""Pixels of a batch for which a kernel is moved, as every step does it."""


def channels_last_layout(graph: Graph, target: Target) -> Graph:
    """The same graph, for an adapter whose lanes tell each other what they fetch."""
    if target.style is not Style.SOFTWARE_VULKAN or not target.limits.lanes:
        return graph
    build = Builder()
    return rebuild(graph, build, _Layout(build, target.limits.lanes).change)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Values computed with channels last, by the value that shows each in its old layout."""

    build: Builder
    lanes: int
    moved: dict[int, Value] = field(default_factory=dict[int, Value])

    def change(self, value: Value, operands: tuple[Value, ...]) -> Value:
        """The new value, a view of one with channels last where that is how it is computed."""
        match value.op:
            case Conv() | ConvInputGradient() | ConvWeightGradient() as op:
                if self._gains(op, value, operands):
                    views = (self._back(self._in_memory(operand)) for operand in operands)
                    return self._back(self.build.add(ChannelsLast(op), *views))
            case Sum(axes=axes) as op if operands[0].id in self.moved:
                order = channels_last(operands[0].type.rank)
                kept = [order.index(axis) for axis in others(axes, len(order))]
                if kept == sorted(kept):
                    along = tuple(sorted(order.index(axis) for axis in axes))
                    return self.build.add(Sum(along), self.moved[operands[0].id])
            case op if type(op) in pointwise.OPS and self._are_moved(operands):
                return self._back(self.build.add(op, *map(self._last, operands)))
            case _:
                pass
        return self.build.reapply(value, *operands)

    def _gains(self, op: Convolution, value: Value, operands: tuple[Value, ...]) -> bool:
        """True if there are channels for all lanes, and pixels that repay to move the kernel."""
        y = value if isinstance(op, Conv) else operands[1]
        samples, *channels = concrete_shape(y.type.shape[:2])
        pixels = samples * prod(concrete_shape(y.type.shape[2:]))
        if isinstance(op, ConvInputGradient):
            channels += concrete_shape(value.type.shape[1:2])
        fit = not any(size % (VEC4 * self.lanes) for size in channels)
        return fit and pixels >= FEWEST_PIXELS and concrete(op.groups) == 1

    def _are_moved(self, operands: tuple[Value, ...]) -> bool:
        """True if it costs nothing to have all of them with channels last."""
        others = [operand for operand in operands if not isinstance(operand.op, REPEATED)]
        return bool(others) and all(operand.id in self.moved for operand in others)

    def _last(self, value: Value) -> Value:
        """A value with its channels last."""
        known = self.moved.get(value.id)
        if known is not None:
            return known
        order = channels_last(value.type.rank)
        match value.op:
            case Broadcast(shape=shape, axes=axes) if len(axes) < 2:
                sizes = tuple(shape[axis] for axis in order)
                repeated = Broadcast(sizes, tuple(map(order.index, axes)))
                return self.build.add(repeated, *value.operands)
            case _:
                return self.build.add(Transpose(order), value)

    def _in_memory(self, value: Value) -> Value:
        """The same, and so that it is not read where it lay before."""
        if value.id not in self.moved:
            moved = self.build.add(Transpose(channels_last(value.type.rank)), value)
            self.moved[value.id] = self.build.add(Cast(value.type.dtype), moved)
        return self.moved[value.id]

    def _back(self, moved: Value) -> Value:
        """A view of a value with its channels where they were."""
        order = channels_last(moved.type.rank)
        inverse = tuple(map(order.index, range(len(order))))
        view = self.build.add(Transpose(inverse), moved)
        self.moved[view.id] = moved
        return view
