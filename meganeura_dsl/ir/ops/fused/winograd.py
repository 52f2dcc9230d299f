"""Winograd's 3 x 3 convolution, and what its gradient is made of: transforms around a product.

An image is cut into tiles of m x m outputs, each of which sees (m + 2) x (m + 2) inputs. With the
matrices of `winograd_matrices` along both axes, the sum over nine taps becomes one product for each
of (m + 2)**2 elements, which all tiles and channels share as matrices:

    conv(x, w) = output(kernel(w) @ input(x))

It is bilinear, so its adjoints are those of its parts. Tiles are numbered by image, row, column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.fused.activation import Epilogue, finish, finish_value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.fused.contraction import plus
from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS, TAPS, Matrices, matrices
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.contraction import (
    Conv,
    ConvInputGradient,
    Convolution,
    ConvWeightGradient,
    MatMul,
)
from meganeura_dsl.ir.ops.primitive.movement import Concat, Pad, Reshape, Reverse, Slice, Transpose
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete,
    concrete_shape,
    require_at_least,
    require_dtype,
    require_length,
    require_same_type,
    title,
)
from meganeura_dsl.ir.traits import Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType, element_count
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Size

__all__ = [
    "FusedWinogradOutput",
    "WinogradInput",
    "WinogradKernel",
    "WinogradKernelGradient",
    "WinogradOutput",
    "WinogradOutputGradient",
]


@dataclass(frozen=True)
class Winograd(Fused, abstract=True):
    """Base of the transforms: `outputs` is the m of tiles of m x m outputs."""

    traits = frozenset({Trait.TRANSFORM})
    outputs: int

    @property
    def size(self) -> int:
        """Places of a tile along each axis: m outputs see m + 2 inputs."""
        return self.outputs + TAPS - 1

    @property
    def elements(self) -> int:
        """Places of a tile, each of which has its own product."""
        return self.size * self.size

    @property
    def matrices(self) -> Matrices:
        """The matrices that multiply each axis."""
        return matrices(self.outputs)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """Each axis is multiplied with a matrix, about half of whose elements are zero."""
        return 2 * self.size * max(element_count(operands[0]), element_count(result))

    def _require(self, x: TensorType, rank: int) -> None:
        if self.outputs not in POINTS:
            known = " or ".join(map(str, POINTS))
            raise TypeRuleError(f"{title(self)} makes {known} outputs, not {self.outputs}")
        require_dtype(self, x, FLOATS)
        if x.rank != rank:
            raise TypeRuleError(f"{title(self)} takes {rank} axes, not {x}")

    def _tiles(self, length: Size) -> Size:
        """Returns the number of tiles that cover so many outputs."""
        return (length - 1) // self.outputs + 1


@dataclass(frozen=True)
class WinogradInput(Winograd):
    """The tiles of x [n, c, h, w] with zeros around it, transformed: [elements, c, tiles]."""

    operands = Operands(("x",))
    padding: Shape

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        self._require(x, 4)
        require_length(self, "padding", self.padding, 2)
        require_at_least(self, facts, "padding", self.padding, 0)
        n, c, *spatial = x.shape
        tiles = n
        for length, around in zip(spatial, self.padding, strict=True):
            fits = Compare(">=", length + 2 * around, TAPS)
            facts.require(fits, f"the kernel of {title(self)} fits its input")
            tiles = tiles * self._tiles(length + 2 * around - TAPS + 1)
        return x.with_shape((self.elements, c, tiles))

    def evaluate(self, x: Array) -> Array:
        m, window = self.outputs, (self.size, self.size)
        padded = np.pad(x, ((0, 0), (0, 0), *self._ends(x.shape[2:])))
        tiles = np.lib.stride_tricks.sliding_window_view(padded, window, (2, 3))[:, :, ::m, ::m]
        rows = tiles.transpose(4, 5, 1, 0, 2, 3).reshape(self.elements, -1)
        return (_twice(self.matrices.input, x) @ rows).reshape(self.elements, x.shape[1], -1)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (x,) = operands
        ends = ((0, 0), (0, 0), *self._ends(concrete_shape(x.type.shape[2:])))
        low, high = zip(*ends, strict=True)
        tiles = build.add(Pad(low, high, (0,) * 4), x)
        for axis in (2, 4):
            tiles = _along(build, self._cut(build, tiles, axis), axis + 1, self.matrices.input)
        n, c, down, _, across, _ = concrete_shape(tiles.type.shape)
        moved = build.add(Transpose((3, 5, 1, 0, 2, 4)), tiles)
        return build.add(Reshape((self.elements, c, n * down * across)), moved)

    def _ends(self, spatial: Sequence[int]) -> list[tuple[int, int]]:
        """Zeros before and behind each axis, so that whole tiles cover it."""
        around = concrete_shape(self.padding)
        outputs = [length + 2 * p - TAPS + 1 for length, p in zip(spatial, around, strict=True)]
        return [(p, p - length % -self.outputs) for p, length in zip(around, outputs, strict=True)]

    def _cut(self, build: Builder, x: Value, axis: int) -> Value:
        """The axis as tiles, and their elements behind it."""
        shape = concrete_shape(x.type.shape)
        count = (shape[axis] - TAPS + 1) // self.outputs
        rows: list[Value] = []
        for position in range(self.size):
            start = tuple(position if at == axis else 0 for at in range(len(shape)))
            last = position + (count - 1) * self.outputs + 1
            stop = (*shape[:axis], last, *shape[axis + 1 :])
            step = tuple(self.outputs if at == axis else 1 for at in range(len(shape)))
            row = build.add(Slice(start, stop, step), x)
            rows.append(build.add(Reshape((*shape[:axis], count, 1, *shape[axis + 1 :])), row))
        return build.add(Concat(axis + 1), *rows)


@dataclass(frozen=True)
class WinogradKernel(Winograd):
    """The kernel w [k, c, 3, 3], or its mirror image, transformed: [elements, k, c]."""

    operands = Operands(("w",))
    mirrored: bool

    def infer(self, facts: Facts, w: TensorType) -> TensorType:
        self._require(w, 4)
        facts.require_same_shape(w.shape[2:], (TAPS, TAPS), f"{title(self)} has nine taps")
        return w.with_shape((self.elements, *w.shape[:2]))

    def evaluate(self, w: Array) -> Array:
        taps = (w[:, :, ::-1, ::-1] if self.mirrored else w).reshape(-1, TAPS * TAPS)
        return (_twice(self.matrices.kernel, w) @ taps.T).reshape(self.elements, *w.shape[:2])

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (w,) = operands
        shape = w.type.shape[:2]
        w = build.add(Reverse((2, 3)), w) if self.mirrored else w
        for axis in (2, 3):
            w = _along(build, w, axis, self.matrices.kernel)
        return build.add(Reshape((self.elements, *shape)), build.add(Transpose((2, 3, 0, 1)), w))


@dataclass(frozen=True)
class WinogradKernelGradient(Winograd):
    """The adjoint of `WinogradKernel`, not mirrored: from [elements, k, c] to [k, c, 3, 3]."""

    operands = Operands(("products",))

    def infer(self, facts: Facts, products: TensorType) -> TensorType:
        self._require(products, 3)
        facts.require_equal(products.shape[0], self.elements, f"{title(self)} has all elements")
        return products.with_shape((*products.shape[1:], TAPS, TAPS))

    def evaluate(self, products: Array) -> Array:
        rows = products.reshape(self.elements, -1)
        taps = _twice(self.matrices.kernel.T, products) @ rows
        return taps.T.reshape(*products.shape[1:], TAPS, TAPS)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (products,) = operands
        shape = (self.size, self.size, *products.type.shape[1:])
        elements = build.add(Transpose((2, 3, 0, 1)), build.add(Reshape(shape), products))
        for axis in (2, 3):
            elements = _along(build, elements, axis, self.matrices.kernel.T)
        return elements


@dataclass(frozen=True)
class WinogradImages(Winograd, abstract=True):
    """Products [elements, k, tiles] as images [n, k, *spatial]; what a tile has beyond is cut."""

    images: int
    spatial: Shape

    @property
    def plain(self) -> "WinogradOutput":
        """The images alone."""
        return WinogradOutput(self.outputs, self.images, self.spatial)

    def untiled_type(self, facts: Facts, products: TensorType) -> TensorType:
        """The type of the images."""
        self._require(products, 3)
        require_length(self, "spatial", self.spatial, 2)
        require_at_least(self, facts, "spatial", (self.images, *self.spatial), 1)
        down, across = map(self._tiles, self.spatial)
        facts.require_same_shape(
            (products.shape[0], products.shape[2]),
            (self.elements, self.images * down * across),
            f"{title(self)} has the products of all elements and tiles",
        )
        return products.with_shape((self.images, products.shape[1], *self.spatial))

    def untiled(self, products: Array) -> Array:
        """The images of products."""
        (height, width), k, m = concrete_shape(self.spatial), products.shape[1], self.outputs
        down, across = -(-height // m), -(-width // m)
        rows = _twice(self.matrices.output, products) @ products.reshape(self.elements, -1)
        tiles = rows.reshape(m, m, k, self.images, down, across).transpose(3, 2, 4, 0, 5, 1)
        pixels = tiles.reshape(self.images, k, down * m, across * m)
        return pixels[:, :, :height, :width]

    def untiled_value(self, build: Builder, products: Value) -> Value:
        """`untiled` as a graph of primitives."""
        m, k = self.outputs, products.type.shape[1]
        down, across = map(self._tiles, self.spatial)
        shape = (self.size, self.size, k, self.images, down, across)
        tiles = build.add(Transpose((3, 2, 4, 0, 5, 1)), build.add(Reshape(shape), products))
        for axis in (3, 5):
            tiles = _along(build, tiles, axis, self.matrices.output)
        pixels = build.add(Reshape((self.images, k, down * m, across * m)), tiles)
        whole = (self.images, k, *self.spatial)
        return build.add(Slice((0,) * 4, whole, (1,) * 4), pixels)


@dataclass(frozen=True)
class WinogradOutput(WinogradImages):
    """The images alone."""

    operands = Operands(("products",))

    def infer(self, facts: Facts, products: TensorType) -> TensorType:
        return self.untiled_type(facts, products)

    def evaluate(self, products: Array) -> Array:
        return self.untiled(products)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        return self.untiled_value(build, operands[0])


@dataclass(frozen=True)
class FusedWinogradOutput(WinogradImages):
    """epilogue(the images + bias + residual), the bias along the channels."""

    operands = Operands(("products", "bias"), optional=("residual",))
    epilogue: Epilogue

    def infer(
        self, facts: Facts, products: TensorType, bias: TensorType, *residual: TensorType
    ) -> TensorType:
        result = self.untiled_type(facts, products)
        require_same_type(self, facts, bias, result.with_shape(result.shape[1:2]))
        for each in residual:
            require_same_type(self, facts, each, result)
        return result

    def evaluate(self, products: Array, bias: Array, *residual: Array) -> Array:
        total = self.untiled(products) + bias[:, None, None]
        return finish(self.epilogue, sum(residual, total))

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        products, *rest = operands
        return self.finished(build, self.untiled_value(build, products), *rest)

    def finished(self, build: Builder, images: Value, bias: Value, *residual: Value) -> Value:
        """The result, from the images alone and the other operands."""
        return finish_value(build, self.epilogue, plus(build, images, 1, bias, *residual))


@dataclass(frozen=True)
class WinogradOutputGradient(Winograd):
    """The adjoint of `WinogradOutput`: from dy [n, k, h, w] to products [elements, k, tiles]."""

    operands = Operands(("dy",))

    def infer(self, facts: Facts, dy: TensorType) -> TensorType:
        self._require(dy, 4)
        n, k, *spatial = dy.shape
        down, across = map(self._tiles, spatial)
        return dy.with_shape((self.elements, k, n * down * across))

    def evaluate(self, dy: Array) -> Array:
        m = self.outputs
        padded = np.pad(dy, ((0, 0), (0, 0), *((0, -size % m) for size in dy.shape[2:])))
        n, k, height, width = padded.shape
        tiles = padded.reshape(n, k, height // m, m, width // m, m).transpose(3, 5, 1, 0, 2, 4)
        rows = _twice(self.matrices.output.T, dy) @ tiles.reshape(m * m, -1)
        return rows.reshape(self.elements, k, -1)

    def expand(self, build: Builder, operands: Sequence[Value]) -> Value:
        (dy,) = operands
        m, (n, k, *spatial) = self.outputs, concrete_shape(dy.type.shape)
        none, behind = (0,) * 4, (0, 0, *(-size % m for size in spatial))
        down, across = (-(-size // m) for size in spatial)
        padded = build.add(Pad(none, behind, none), dy)
        tiles = build.add(Reshape((n, k, down, m, across, m)), padded)
        for axis in (3, 5):
            tiles = _along(build, tiles, axis, self.matrices.output.T)
        moved = build.add(Transpose((3, 5, 1, 0, 2, 4)), tiles)
        return build.add(Reshape((self.elements, k, n * down * across)), moved)


OPS: tuple[type[Op], ...] = (
    WinogradInput,
    WinogradKernel,
    WinogradOutput,
    FusedWinogradOutput,
    WinogradOutputGradient,
    WinogradKernelGradient,
)


def _twice(matrix: Array, like: Array) -> Array:
    """Returns the matrix that multiplies squares, as rows, as `matrix` does from both sides."""
    return np.kron(matrix, matrix).astype(like.dtype)


def _along(build: Builder, x: Value, axis: int, matrix: Array) -> Value:
    """Each row of x along an axis, multiplied with a matrix."""
    order = (*(at for at in range(x.type.rank) if at != axis), axis)
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    factor = _constants(build, matrix, x.type.dtype)
    product = build.add(MatMul(transpose_right=True), build.add(Transpose(order), x), factor)
    return build.add(Transpose(back), product)


def _constants(build: Builder, matrix: Array, dtype: DType) -> Value:
    one = TensorType(dtype, (1,))
    each = [full(build, one, float(number)) for number in matrix.flat]
    return build.add(Reshape(matrix.shape), build.add(Concat(0), *each))


def in_tiles(build: Builder, op: Convolution, operands: Sequence[Value], outputs: int) -> Value:
    """A convolution of 3 x 3 with stride 1, or a gradient of one, in Winograd's form."""
    a, b = operands
    padding = concrete_shape(op.padding)
    match op:
        case Conv():
            kernel = build.add(WinogradKernel(outputs, mirrored=False), b)
            products = build.add(MatMul(), kernel, build.add(WinogradInput(outputs, padding), a))
            n, spatial = a.type.shape[0], op.infer(build.facts, a.type, b.type).shape[2:]
            return build.add(WinogradOutput(outputs, concrete(n), spatial), products)
        case ConvInputGradient():
            around = tuple(TAPS - 1 - each for each in padding)
            kernel = build.add(WinogradKernel(outputs, mirrored=True), a)
            tiles = build.add(WinogradInput(outputs, around), b)
            products = build.add(MatMul(transpose_left=True), kernel, tiles)
            return build.add(
                WinogradOutput(outputs, concrete(b.type.shape[0]), op.spatial), products
            )
        case ConvWeightGradient():
            elements = build.add(WinogradOutputGradient(outputs), b)
            tiles = build.add(WinogradInput(outputs, padding), a)
            products = build.add(MatMul(transpose_right=True), elements, tiles)
            return build.add(WinogradKernelGradient(outputs), products)
        case _:
            raise TypeError(f"{op} is no convolution")
