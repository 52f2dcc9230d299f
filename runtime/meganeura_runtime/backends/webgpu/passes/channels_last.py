"""Layout assignment: convolutions on images with the channels last (NHWC), where that is faster.

Software Vulkan fetches four neighbours in hardly more time than one, and matrix units want eight
halves at once. Along the channels there are always so many of them; along a row of pixels the taps
of a kernel are shifted against each other. So kernels and images have their channels last for the
convolutions that gain from it, and everything between these is computed in that order too. For
matrix units that includes what moves elements: parts of the channels are normalized, and images
are joined, enlarged and pooled, where they lie.
"""

from dataclasses import dataclass, field
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Leaf, Op, Value, rebuild
from meganeura_dsl.ir.ops import (
    Broadcast,
    Cast,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    MaxPool,
    MaxPoolGradient,
    Reshape,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.broadcast import others
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import Shape
from meganeura_runtime.backends.webgpu.codegen.lowering import elementwise as pointwise
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import VEC4
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast, channels_last
from meganeura_runtime.backends.webgpu.passes.reordered import Ordered, in_order, moved_elements

REPEATED: tuple[type[Op], ...] = (Broadcast, Constant)
"""Ops whose results can be read in any order."""
FEWEST_PIXELS = 256
"""Pixels of a batch for which a kernel is moved, as every step does it."""
HALVES = 8
"""Halves that a lane fetches at once."""


def channels_last_layout(graph: Graph, target: Target) -> Graph:
    """The same graph, for an adapter whose lanes tell each other what they fetch, or in f16.

    Matrix units take an image as a whole, or not at all: kernels of grouped convolutions read rows
    of pixels, so that a graph which has any stays as it is.
    """
    on_units = target.limits.matrix_units is not None
    if on_units and any(_is_grouped(value) for value in graph.values):
        return graph
    shuffles = target.style is Style.SOFTWARE_VULKAN and target.limits.lanes
    if not on_units and not shuffles:
        return graph
    build = Builder()
    multiple = HALVES if on_units else VEC4 * target.limits.lanes
    return rebuild(graph, build, _Layout(build, multiple, on_units).change)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(order.index, range(len(order))))


def _is_grouped(value: Value) -> bool:
    return isinstance(value.op, Convolution) and concrete(value.op.groups) != 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """Values computed in another order, by the id of the value that shows each in its old one."""

    build: Builder
    multiple: int
    """The number of channels must be a multiple of this."""
    on_units: bool
    """True if all that lies between convolutions is moved, not elementwise ops and sums alone."""
    moved: dict[int, Ordered] = field(default_factory=dict[int, Ordered])
    copies: dict[tuple[int, tuple[int, ...]], Value] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], Value]
    )
    """Values that are written once more, by the id of each and the order of the copy."""

    def change(self, value: Value, operands: tuple[Value, ...]) -> Value:
        """The new value, a view of one with channels last where that is how it is computed."""
        match value.op:
            case Conv() | ConvInputGradient() | ConvWeightGradient() as op:
                if self._gains(op, value, operands):
                    return self._convolution(op, operands)
                if self.on_units:
                    return self.build.add(op, *map(self._as_before, operands))
            case Sum(axes=axes) if operands[0].id in self.moved:
                found = self._summed(self.moved[operands[0].id], axes)
                if found is not None:
                    return found
            case op if type(op) in pointwise.OPS and self._are_moved(operands):
                order = next(self.moved[one.id].order for one in operands if one.id in self.moved)
                each = (self._in_order(one, order) for one in operands)
                return self._back(Ordered(self.build.add(op, *each), order))
            case MaxPool() | MaxPoolGradient() as op:
                if self.on_units and self._are_moved(operands):
                    return self._pooled(value, op, operands)
            case op if self.on_units and any(one.id in self.moved for one in operands):
                found = moved_elements(self.build, op, [self.moved.get(one.id) for one in operands])
                if found is not None:
                    return self._back(found)
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
        fit = not any(size % self.multiple for size in channels)
        return fit and pixels >= FEWEST_PIXELS and concrete(op.groups) == 1

    def _convolution(self, op: Convolution, operands: tuple[Value, ...]) -> Value:
        """The convolution; the gradient of a kernel meets the kernel, which is not moved."""
        order = channels_last(operands[0].type.rank)
        views = (in_order(self.build, Ordered(self._in_memory(one), order)) for one in operands)
        found = Ordered(self.build.add(ChannelsLast(op), *views), order)
        if self.on_units and isinstance(op, ConvWeightGradient):
            return in_order(self.build, found)
        return self._back(found)

    def _summed(self, x: Ordered, axes: tuple[int, ...]) -> Value | None:
        """The sum; None if its axes would be in another order, and nothing else can be so."""
        along = tuple(sorted(x.order.index(axis) for axis in axes))
        kept = [x.order[at] for at in others(along, len(x.order))]
        if kept != sorted(kept) and not self.on_units:
            return None
        summed = self.build.add(Sum(along), x.value)
        if kept == sorted(kept):
            return summed
        return self._back(Ordered(summed, tuple(sorted(kept).index(axis) for axis in kept)))

    def _are_moved(self, operands: tuple[Value, ...]) -> bool:
        """True if it costs nothing to have all in another order; on matrix units, if one has."""
        others = [operand for operand in operands if not isinstance(operand.op, REPEATED)]
        moved = [operand.id in self.moved for operand in others]
        return any(moved) if self.on_units else bool(moved) and all(moved)

    def _in_order(self, value: Value, order: tuple[int, ...]) -> Value:
        """A value in another order."""
        known = self.moved.get(value.id)
        if known is not None and known.order == order:
            return known.value
        match value.op:
            case Broadcast(shape=shape, axes=axes):
                along = tuple(map(order.index, axes))
                if along == tuple(sorted(along)):
                    repeated = Broadcast(tuple(shape[axis] for axis in order), along)
                    return self.build.add(repeated, *value.operands)
            case _:
                pass
        return self.build.add(Transpose(order), value)

    def _in_memory(self, value: Value) -> Value:
        """The same with channels last, and so that it is not read where it lay before."""
        order = channels_last(value.type.rank)
        known = self.moved.get(value.id)
        if known is not None and known.order == order:
            return known.value
        copy = self._copied(value, order)
        if known is None and not isinstance(value.op, Leaf):
            self.moved[value.id] = Ordered(copy, order)
        return copy

    def _as_before(self, value: Value) -> Value:
        """The same in its old order, and so that it is not read where it lies now."""
        if value.id not in self.moved:
            return value
        return self._copied(value, tuple(range(value.type.rank)))

    def _copied(self, value: Value, order: tuple[int, ...]) -> Value:
        key = (value.id, order)
        if key not in self.copies:
            view = in_order(self.build, Ordered(value, _inverse(order)))
            self.copies[key] = self.build.add(Cast(value.type.dtype), view)
        return self.copies[key]

    def _pooled(
        self, value: Value, op: MaxPool | MaxPoolGradient, operands: tuple[Value, ...]
    ) -> Value:
        """The pooled image: to the op, channels are one more axis of a single channel."""
        order = channels_last(value.type.rank)
        each = [self._in_order(one, order) for one in operands]
        alone = [self._reshaped(one, (one.type.shape[0], 1, *one.type.shape[1:])) for one in each]
        geometry = ((*op.window, 1), (*op.stride, 1), (*op.padding, 0))
        if isinstance(op, MaxPoolGradient):
            channels = value.type.shape[1]
            found = self.build.add(MaxPoolGradient(*geometry, (*op.spatial, channels)), *alone)
        else:
            found = self.build.add_all(MaxPool(*geometry), *alone)[value.index]
        samples, _, *image = found.type.shape
        return self._back(Ordered(self._reshaped(found, (samples, *image)), order))

    def _reshaped(self, value: Value, shape: Shape) -> Value:
        return self.build.add(Reshape(shape), value)

    def _back(self, moved: Ordered) -> Value:
        """A view of a value in its old order."""
        view = in_order(self.build, moved)
        self.moved[view.id] = moved
        return view
