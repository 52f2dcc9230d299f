"""Convolution and its two adjoints as contractions, without the copies of an explicit im2col."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import (
    Contraction,
    OutputCoordinate,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    BoundsCheck,
    Expression,
    Index,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader, guarded
from meganeura_runtime.backends.webgpu.ops.lowered import ChannelsLast

Each = TypeVar("Each")

CONTRACTS: tuple[type[Op], ...] = (Conv, ConvInputGradient, ConvWeightGradient)


def contraction(op: Op, a: Value, b: Value) -> Contraction:
    """Rows are channels and columns are pixels, which lie next to each other in memory."""
    match op:
        case Conv():
            return _forward(_Geometry.of(op), a, b)
        case ConvInputGradient(spatial=spatial):
            return _input_gradient(_Geometry.of(op), concrete_shape(spatial), a, b)
        case ConvWeightGradient(kernel=kernel):
            return _weight_gradient(_Geometry.of(op), concrete_shape(kernel), a, b)
        case _:
            raise TypeError(f"{op} is no convolution")


def turned(op: Op, a: Value, b: Value) -> Contraction:
    """Columns are channels, and so are the innermost terms, for where they lie next to each other.

    That is where channels are the last axis of images and kernels.
    """
    if not isinstance(op, ChannelsLast):
        raise TypeError(f"{op} is no convolution with channels last")
    whole = contraction(op.whole, a, b)
    if isinstance(op.whole, ConvWeightGradient):
        return _turned_weight_gradient(whole)
    reached = whole.reached

    def left(reading: ElementReader, at: Index, row: Index, term: Index) -> Expression:
        return whole.right(reading, at, row, _first(term))

    def right(reading: ElementReader, at: Index, column: Index, term: Index) -> Expression:
        return whole.left(reading, at, column, _first(term))

    def coordinate(at: Index, row: Index, column: Index) -> OutputCoordinate:
        found = whole.coordinate(at, column, row)
        return OutputCoordinate(_last(found.index, 1), found.guards)

    return Contraction(
        whole.batch,
        whole.columns,
        whole.rows,
        _last(whole.terms, 0),
        left,
        right,
        coordinate,
        reached=None if reached is None else lambda at, term: reached(at, _first(term)),
    )


def _turned_weight_gradient(whole: Contraction) -> Contraction:
    """Columns are channels already; here they become the innermost of them."""

    def right(reading: ElementReader, at: Index, column: Index, term: Index) -> Expression:
        return whole.right(reading, at, _first(column), term)

    def coordinate(at: Index, row: Index, column: Index) -> OutputCoordinate:
        found = whole.coordinate(at, row, _first(column))
        return OutputCoordinate(_last(found.index, 1), found.guards)

    return replace(whole, columns=_last(whole.columns, 0), right=right, coordinate=coordinate)


def _last(of: tuple[Each, ...], axis: int) -> tuple[Each, ...]:
    """Returns a tuple with one axis moved to the end."""
    return (*of[:axis], *of[axis + 1 :], of[axis])


def _first(of: tuple[Each, ...]) -> tuple[Each, ...]:
    """Returns a tuple with the last axis moved to the beginning."""
    return (of[-1], *of[:-1])


@dataclass(frozen=True, slots=True)
class _Geometry:
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @staticmethod
    def of(op: Convolution) -> "_Geometry":
        stride, padding = concrete_shape(op.stride), concrete_shape(op.padding)
        return _Geometry(stride, padding, concrete_shape(op.dilation), concrete(op.groups))

    def taps(self, output: Index, tap: Index, spatial: Sequence[int]) -> list[BoundsCheck]:
        """Returns the input positions of an output pixel: o * stride + k * dilation - padding."""
        axes = zip(output, tap, self.stride, self.dilation, self.padding, spatial, strict=True)
        return [BoundsCheck(o * s + k * d - p, 1, size) for o, k, s, d, p, size in axes]


def _read(
    reading: ElementReader, x: Value, start: Index, guards: Sequence[BoundsCheck]
) -> Expression:
    """An element of x, and zero in its padding."""
    index = (*start, *(guard.index for guard in guards))
    return guarded(reading.make, guards, reading.at(x, index))


def _forward(geometry: _Geometry, x: Value, w: Value) -> Contraction:
    samples, _, *spatial = concrete_shape(x.type.shape)
    outputs, depth, *kernel = concrete_shape(w.type.shape)
    each = outputs // geometry.groups
    pixels = _pixels(spatial, kernel, geometry)

    def left(reading: ElementReader, group: Index, row: Index, term: Index) -> Expression:
        return reading.at(w, (group[0] * each + row[0], *term))

    def right(reading: ElementReader, group: Index, column: Index, term: Index) -> Expression:
        start = column[0], group[0] * depth + term[0]
        return _read(reading, x, start, geometry.taps(column[1:], term[1:], spatial))

    def coordinate(group: Index, row: Index, column: Index) -> OutputCoordinate:
        return OutputCoordinate((column[0], group[0] * each + row[0], *column[1:]))

    columns, terms = (samples, *pixels), (depth, *kernel)
    return Contraction((geometry.groups,), (each,), columns, terms, left, right, coordinate, (0,))


def _weight_gradient(
    geometry: _Geometry, kernel: tuple[int, ...], x: Value, dy: Value
) -> Contraction:
    samples, channels, *spatial = concrete_shape(x.type.shape)
    outputs, *pixels = concrete_shape(dy.type.shape[1:])
    each, depth = outputs // geometry.groups, channels // geometry.groups

    def left(reading: ElementReader, group: Index, row: Index, term: Index) -> Expression:
        return reading.at(dy, (term[0], group[0] * each + row[0], *term[1:]))

    def right(reading: ElementReader, group: Index, column: Index, term: Index) -> Expression:
        start = term[0], group[0] * depth + column[0]
        return _read(reading, x, start, geometry.taps(term[1:], column[1:], spatial))

    def coordinate(group: Index, row: Index, column: Index) -> OutputCoordinate:
        return OutputCoordinate((group[0] * each + row[0], *column))

    return Contraction(
        (geometry.groups,), (each,), (depth, *kernel), (samples, *pixels), left, right, coordinate
    )


@dataclass(frozen=True, slots=True)
class _Phases:
    """Pixels of the input along one axis, sorted by which taps reach them.

    With stride s, pixel y is reached by tap k from output o = (y + p - k d) / s only where that
    division is exact. Without dilation that is every s-th tap, from (y + p) mod s on. So pixels
    y = s i + phase are computed together. All phases have as many terms as the largest, some of
    which no tap reaches.
    """

    size: int
    kernel: int
    outputs: int
    stride: int
    padding: int
    dilation: int

    @property
    def count(self) -> int:
        return 1 if self.dilation > 1 else self.stride

    @property
    def pixels(self) -> int:
        return -(-self.size // self.count)

    @property
    def taps(self) -> int:
        return -(-self.kernel // self.count)

    def pixel(self, phase: Affine, i: Affine) -> BoundsCheck:
        return BoundsCheck(i * self.count + phase, 1, self.size)

    def tap(self, phase: Affine, j: Affine) -> BoundsCheck:
        return BoundsCheck((phase + self.padding) % self.count + j * self.count, 1, self.kernel)

    def output(self, phase: Affine, i: Affine, j: Affine) -> BoundsCheck:
        if self.count == 1:
            return BoundsCheck(i + self.padding - j * self.dilation, self.stride, self.outputs)
        return BoundsCheck(i + (phase + self.padding) // self.count - j, 1, self.outputs)


def _input_gradient(
    geometry: _Geometry, spatial: tuple[int, ...], w: Value, dy: Value
) -> Contraction:
    outputs, depth, *kernel = concrete_shape(w.type.shape)
    samples, _, *pixels = concrete_shape(dy.type.shape)
    each = outputs // geometry.groups
    sizes = zip(
        spatial, kernel, pixels, geometry.stride, geometry.padding, geometry.dilation, strict=True
    )
    phases = [_Phases(*numbers) for numbers in sizes]

    def left(reading: ElementReader, at: Index, row: Index, term: Index) -> Expression:
        axes = zip(phases, at[1:], term[1:], strict=True)
        guards = [axis.tap(phase, j) for axis, phase, j in axes]
        return _read(reading, w, (at[0] * each + term[0], row[0]), guards)

    def right(reading: ElementReader, at: Index, column: Index, term: Index) -> Expression:
        axes = zip(phases, at[1:], column[1:], term[1:], strict=True)
        guards = [axis.output(phase, i, j) for axis, phase, i, j in axes]
        return _read(reading, dy, (column[0], at[0] * each + term[0]), guards)

    def coordinate(at: Index, row: Index, column: Index) -> OutputCoordinate:
        axes = zip(phases, at[1:], column[1:], strict=True)
        guards = tuple(axis.pixel(phase, i) for axis, phase, i in axes)
        index = (column[0], at[0] * depth + row[0], *(guard.index for guard in guards))
        return OutputCoordinate(index, guards)

    def reached(at: Index, term: Index) -> list[BoundsCheck]:
        axes = zip(phases, at[1:], term[1:], strict=True)
        return [axis.tap(phase, j) for axis, phase, j in axes]

    batch = (geometry.groups, *(axis.count for axis in phases))
    columns = (samples, *(axis.pixels for axis in phases))
    terms = (each, *(axis.taps for axis in phases))
    return Contraction(batch, (depth,), columns, terms, left, right, coordinate, (0,), reached)


def _pixels(spatial: Sequence[int], kernel: Sequence[int], geometry: _Geometry) -> tuple[int, ...]:
    axes = zip(spatial, kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True)
    return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in axes)
