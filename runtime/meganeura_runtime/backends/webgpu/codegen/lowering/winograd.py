"""The transforms of Winograd's convolution: what each invocation reads, and where it writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from meganeura_dsl.ir.graph import Array, Op, Value
from meganeura_dsl.ir.ops.fused import (
    WinogradInput,
    WinogradKernel,
    WinogradKernelGradient,
    WinogradOutput,
    WinogradOutputGradient,
)
from meganeura_dsl.ir.ops.fused.winograd import Winograd
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import OutputCoordinate
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    BoundsCheck,
    Expression,
    Index,
    ravel,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader, guarded

Kind = TypeVar("Kind", bound=Winograd)


@dataclass(frozen=True, slots=True)
class Transform:
    """A square for each unit, which becomes `matrix @ square @ matrix^T`, element by element."""

    units: tuple[int, ...]
    matrix: Array
    read: Callable[[ElementReader, Index, int, int], Expression]
    coordinate: Callable[[Index, int, int], OutputCoordinate]


def transform_of(value: Value) -> Transform:
    """Returns the transform that gives a value, with its operand."""
    return TRANSFORMS[type(value.op)](value)


def may_share(a: Value, b: Value) -> bool:
    """True if one kernel can write the results of both to the same places of their own.

    It reads the same squares for both, or those of equal index of two images.
    """
    kinds = {type(a.op), type(b.op)}
    if a.type != b.type:
        return False
    if kinds == {WinogradInput, WinogradOutputGradient}:
        return transform_of(a).units == transform_of(b).units
    return kinds == {WinogradKernel} and a.operands == b.operands


def _input(value: Value) -> Transform:
    op, (x,) = _op(value, WinogradInput), value.operands
    n, c, *spatial = concrete_shape(x.type.shape)
    padding = concrete_shape(op.padding)
    outputs = [size + 2 * around - 2 for size, around in zip(spatial, padding, strict=True)]
    tiles = (n, *(-(-size // op.outputs) for size in outputs))

    def read(reading: ElementReader, unit: Index, row: int, column: int) -> Expression:
        return _pixel(reading, x, unit, _start(op, unit, (row, column), padding))

    def coordinate(unit: Index, row: int, column: int) -> OutputCoordinate:
        return _product(op, unit, tiles, row, column)

    return Transform((c, *tiles), op.matrices.input, read, coordinate)


def _kernel(value: Value) -> Transform:
    op, (w,) = _op(value, WinogradKernel), value.operands
    last = 2 if op.mirrored else 0

    def read(reading: ElementReader, unit: Index, row: int, column: int) -> Expression:
        return reading.at(w, (*unit, Affine(abs(last - row)), Affine(abs(last - column))))

    def coordinate(unit: Index, row: int, column: int) -> OutputCoordinate:
        return OutputCoordinate((Affine(row * op.size + column), *unit))

    units = concrete_shape(w.type.shape[:2])
    return Transform(units, op.matrices.kernel, read, coordinate)


def _kernel_gradient(value: Value) -> Transform:
    op, (products,) = _op(value, WinogradKernelGradient), value.operands

    def read(reading: ElementReader, unit: Index, row: int, column: int) -> Expression:
        return reading.at(products, (Affine(row * op.size + column), *unit))

    def coordinate(unit: Index, row: int, column: int) -> OutputCoordinate:
        return OutputCoordinate((*unit, Affine(row), Affine(column)))

    units = concrete_shape(products.type.shape[1:])
    return Transform(units, op.matrices.kernel.T, read, coordinate)


def _output(value: Value) -> Transform:
    op, (products,) = _op(value, WinogradOutput), value.operands
    spatial = concrete_shape(op.spatial)
    tiles = (op.images, *(-(-size // op.outputs) for size in spatial))

    def read(reading: ElementReader, unit: Index, row: int, column: int) -> Expression:
        return reading.at(products, _product(op, unit, tiles, row, column).index)

    def coordinate(unit: Index, row: int, column: int) -> OutputCoordinate:
        starts = _start(op, unit, (row, column), (0, 0))
        guards = tuple(BoundsCheck(at, 1, size) for at, size in zip(starts, spatial, strict=True))
        return OutputCoordinate((unit[1], unit[0], *(guard.index for guard in guards)), guards)

    units = (concrete_shape(products.type.shape)[1], *tiles)
    return Transform(units, op.matrices.output, read, coordinate)


def _output_gradient(value: Value) -> Transform:
    op, (dy,) = _op(value, WinogradOutputGradient), value.operands
    n, k, *spatial = concrete_shape(dy.type.shape)
    tiles = (n, *(-(-size // op.outputs) for size in spatial))

    def read(reading: ElementReader, unit: Index, row: int, column: int) -> Expression:
        return _pixel(reading, dy, unit, _start(op, unit, (row, column), (0, 0)))

    def coordinate(unit: Index, row: int, column: int) -> OutputCoordinate:
        return _product(op, unit, tiles, row, column)

    return Transform((k, *tiles), op.matrices.output.T, read, coordinate)


TRANSFORMS: Mapping[type[Op], Callable[[Value], Transform]] = {
    WinogradInput: _input,
    WinogradKernel: _kernel,
    WinogradKernelGradient: _kernel_gradient,
    WinogradOutput: _output,
    WinogradOutputGradient: _output_gradient,
}
"""Ops that multiply small squares with a matrix from both sides."""


def _op(value: Value, kind: type[Kind]) -> Kind:
    if not isinstance(value.op, kind):
        raise TypeError(f"{value.op} is no {kind.__name__}")
    return value.op


def _start(
    op: Winograd, unit: Index, within: tuple[int, int], padding: tuple[int, ...]
) -> list[Affine]:
    """The index in its image of an element of the tile of a unit [channel, image, row, column]."""
    axes = zip(unit[2:], within, padding, strict=True)
    return [tile * op.outputs + position - around for tile, position, around in axes]


def _pixel(reading: ElementReader, x: Value, unit: Index, at: list[Affine]) -> Expression:
    """An element of the image of a unit, and zero beyond it."""
    sizes = concrete_shape(x.type.shape[2:])
    guards = [BoundsCheck(position, 1, size) for position, size in zip(at, sizes, strict=True)]
    index = (unit[1], unit[0], *(guard.index for guard in guards))
    return guarded(reading.make, guards, reading.at(x, index))


def _product(
    op: Winograd, unit: Index, tiles: tuple[int, ...], row: int, column: int
) -> OutputCoordinate:
    """Returns the position among the products [places, channels, tiles] of a unit's element."""
    return OutputCoordinate((Affine(row * op.size + column), unit[0], ravel(unit[1:], tiles)))
