"""Sums of products: matrix multiplication, and convolution with its two adjoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.movement import Reshape
from meganeura_dsl.ir.ops.primitive.windows import (
    Windows,
    channels_first,
    channels_last,
    output_shape,
)
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete,
    concrete_shape,
    require_at_least,
    require_dtype,
    require_length,
    require_same_dtype,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import Shape, TensorType, element_count
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.size import Size, product

__all__ = ["Conv", "ConvInputGradient", "ConvWeightGradient", "MatMul"]


@dataclass(frozen=True)
class MatMul(Op):
    """a @ b, with either transposed first.

    Both have equal leading axes; or b is one matrix and a has any leading axes.
    """

    operands = Operands(("a", "b"))
    traits = frozenset({Trait.CONTRACTION})
    element_cost = ElementCost.LOAD
    transpose_left: bool = False
    transpose_right: bool = False

    def infer(self, facts: Facts, a: TensorType, b: TensorType) -> TensorType:
        require_dtype(self, a, FLOATS)
        require_same_dtype(self, a, b)
        shared = b.rank == 2 and a.rank != 2
        if a.rank < 1 or b.rank < 2 or not (shared or a.rank == b.rank):
            raise TypeRuleError(f"{title(self)} cannot multiply {a} with {b}")
        if shared and self.transpose_left:
            raise TypeRuleError(f"{title(self)} transposes {a} only as one matrix or a like batch")
        *leading, rows, inner = (1, *a.shape) if a.rank == 1 else a.shape
        *others, depth, columns = b.shape
        if self.transpose_left:
            rows, inner = inner, rows
        if self.transpose_right:
            depth, columns = columns, depth
        facts.require_equal(inner, depth, f"{title(self)} sums over one size")
        if shared:
            return a.with_shape((*a.shape[:-1], columns))
        facts.require_same_shape(
            tuple(leading), tuple(others), f"{title(self)} has equal leading axes"
        )
        return a.with_shape((*leading, rows, columns))

    def evaluate(self, a: Array, b: Array) -> Array:
        right = np.swapaxes(b, -1, -2) if self.transpose_right else b
        if b.ndim == 2 and a.ndim != 2:
            flat = a.reshape(-1, a.shape[-1]) @ right
            return flat.reshape(*a.shape[:-1], right.shape[-1])
        return np.matmul(np.swapaxes(a, -1, -2) if self.transpose_left else a, right)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        # C = A B:  dA = dC B^T,  dB = A^T dC, each transposed again if its operand is.
        a, b = out.operands
        if self.transpose_left:
            to_a = build.add(MatMul(self.transpose_right, transpose_right=True), b, cotangent)
        else:
            to_a = build.add(MatMul(transpose_right=not self.transpose_right), cotangent, b)
        if b.type.rank == 2 and a.type.rank != 2:
            a, cotangent = _as_matrix(build, a), _as_matrix(build, cotangent)
        if self.transpose_right:
            to_b = build.add(
                MatMul(transpose_left=True, transpose_right=self.transpose_left), cotangent, a
            )
        else:
            to_b = build.add(MatMul(transpose_left=not self.transpose_left), a, cotangent)
        return to_a, to_b

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        rows = concrete_shape(operands[1].shape)
        return 2 * element_count(result) * (rows[-1] if self.transpose_right else rows[-2])


def _as_matrix(build: Builder, x: Value) -> Value:
    *leading, last = x.type.shape
    return build.add(Reshape((product(leading), last)), x)


@dataclass(frozen=True)
class Convolution(Op, abstract=True):
    """The geometry that a convolution and its two adjoints share."""

    traits = frozenset({Trait.CONTRACTION})
    element_cost = ElementCost.LOAD
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: Size

    def _require_geometry(self, facts: Facts, rank: int) -> None:
        if rank < 1:
            raise TypeRuleError(f"{title(self)} needs at least one axis after batch and channels")
        for name, sizes, least in (
            ("stride", self.stride, 1),
            ("padding", self.padding, 0),
            ("dilation", self.dilation, 1),
        ):
            require_length(self, name, sizes, rank)
            require_at_least(self, facts, name, sizes, least)
        require_at_least(self, facts, "groups", (self.groups,), 1)

    def _require_operands(self, a: TensorType, b: TensorType, rank: int) -> None:
        require_dtype(self, a, FLOATS)
        require_same_dtype(self, a, b)
        if not a.rank == b.rank == rank + 2:
            raise TypeRuleError(f"{title(self)} over {rank} axes cannot take {a} and {b}")

    def _require_groups(self, facts: Facts, channels: Size) -> None:
        facts.require_equal(
            channels % self.groups, 0, f"the groups of {title(self)} divide its channels"
        )

    def _output(self, facts: Facts, spatial: Shape, kernel: Shape) -> Shape:
        return output_shape(self, facts, spatial, kernel, self.stride, self.padding, self.dilation)

    def _windows(self, kernel: tuple[int, ...]) -> Windows:
        return Windows(
            kernel,
            concrete_shape(self.stride),
            concrete_shape(self.padding),
            concrete_shape(self.dilation),
        )

    def _matrices(self, w: Array) -> Array:
        """The kernels [c_out, c_in / g, *kernel] as [g, kernel * c_in / g, c_out / g]."""
        groups = concrete(self.groups)
        split = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
        return split.transpose(0, 3, 2, 1).reshape(groups, -1, split.shape[1])

    def _split(self, rows: Array, width: int) -> Array:
        """[..., channels] as [groups, rows, width], where a row holds channels of its group."""
        groups = concrete(self.groups)
        split = rows.reshape(*rows.shape[:-1], groups, rows.shape[-1] // groups)
        last = split.ndim - 1
        return split.transpose(last - 1, *range(last - 1), last).reshape(groups, -1, width)

    def _join(self, rows: Array, shape: tuple[int, ...]) -> Array:
        """[groups, rows, width] as [*shape, channels], the inverse of `_split`."""
        width = rows.size // (rows.shape[0] * prod(shape))
        split = rows.reshape(rows.shape[0], *shape, width)
        last = split.ndim - 1
        return split.transpose(*range(1, last), 0, last).reshape(*shape, -1)

    @property
    def _geometry(self) -> tuple[Shape, Shape, Shape, Size]:
        return self.stride, self.padding, self.dilation, self.groups


@dataclass(frozen=True)
class Conv(Convolution):
    """Cross-correlation of x [n, c_in, *spatial] with w [c_out, c_in / groups, *kernel].

    out = (s + 2 padding - dilation (k - 1) - 1) // stride + 1 along each axis, at least 1.
    """

    operands = Operands(("x", "w"))

    def infer(self, facts: Facts, x: TensorType, w: TensorType) -> TensorType:
        self._require_operands(x, w, len(self.stride))
        self._require_geometry(facts, x.rank - 2)
        batch, channels, *spatial = x.shape
        outputs, depth, *kernel = w.shape
        facts.require_equal(
            channels, depth * self.groups, f"each group of {title(self)} reads its own channels"
        )
        self._require_groups(facts, outputs)
        return x.with_shape((batch, outputs, *self._output(facts, tuple(spatial), tuple(kernel))))

    def evaluate(self, x: Array, w: Array) -> Array:
        windows = self._windows(w.shape[2:])
        right = self._matrices(w)
        result = np.empty((x.shape[0], w.shape[0], *windows.count(x.shape[2:])), x.dtype)
        for part in windows.batches(x.shape):
            products = self._split(windows.rows(x[part]), right.shape[1]) @ right
            filled = result[part]
            positions = (filled.shape[0], *filled.shape[2:])
            filled[...] = channels_first(self._join(products, positions))
        return result

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        x, w = out.operands
        to_x = ConvInputGradient(*self._geometry, x.type.shape[2:])
        to_w = ConvWeightGradient(*self._geometry, w.type.shape[2:])
        return build.add(to_x, w, cotangent), build.add(to_w, x, cotangent)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        _, w = operands
        return 2 * element_count(result) * (element_count(w) // concrete(w.shape[0]))


@dataclass(frozen=True)
class ConvInputGradient(Convolution):
    """The adjoint of `Conv` in x: from w and the cotangent of the output to that of x."""

    operands = Operands(("w", "dy"))
    spatial: Shape

    def infer(self, facts: Facts, w: TensorType, dy: TensorType) -> TensorType:
        self._require_operands(w, dy, len(self.stride))
        self._require_geometry(facts, w.rank - 2)
        require_length(self, "spatial", self.spatial, w.rank - 2)
        outputs, depth, *kernel = w.shape
        self._require_groups(facts, outputs)
        facts.require_same_shape(
            dy.shape[1:],
            (outputs, *self._output(facts, self.spatial, tuple(kernel))),
            f"{title(self)} takes what the convolution gives",
        )
        return w.with_shape((dy.shape[0], depth * self.groups, *self.spatial))

    def evaluate(self, w: Array, dy: Array) -> Array:
        windows = self._windows(w.shape[2:])
        right = np.swapaxes(self._matrices(w), 1, 2)
        channels = w.shape[1] * concrete(self.groups)
        result = np.empty((dy.shape[0], channels, *concrete_shape(self.spatial)), dy.dtype)
        for part in windows.batches(result.shape):
            cotangents = channels_last(dy[part])
            products = self._split(cotangents, right.shape[1]) @ right
            rows = self._join(products, (*cotangents.shape[:-1], *w.shape[2:]))
            result[part] = windows.add_rows(rows, result.shape[2:])
        return result

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        w, dy = out.operands
        to_w = ConvWeightGradient(*self._geometry, w.type.shape[2:])
        return build.add(to_w, cotangent, dy), build.add(Conv(*self._geometry), cotangent, w)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        w, dy = operands
        return 2 * element_count(dy) * (element_count(w) // concrete(w.shape[0]))


@dataclass(frozen=True)
class ConvWeightGradient(Convolution):
    """The adjoint of `Conv` in w: from x and the cotangent of the output to that of w."""

    operands = Operands(("x", "dy"))
    kernel: Shape

    def infer(self, facts: Facts, x: TensorType, dy: TensorType) -> TensorType:
        self._require_operands(x, dy, len(self.stride))
        self._require_geometry(facts, x.rank - 2)
        require_length(self, "kernel", self.kernel, x.rank - 2)
        require_at_least(self, facts, "kernel", self.kernel, 1)
        batch, channels, *spatial = x.shape
        outputs = dy.shape[1]
        self._require_groups(facts, channels)
        self._require_groups(facts, outputs)
        facts.require_same_shape(
            dy.shape,
            (batch, outputs, *self._output(facts, tuple(spatial), self.kernel)),
            f"{title(self)} takes what the convolution gives",
        )
        return x.with_shape((outputs, channels // self.groups, *self.kernel))

    def evaluate(self, x: Array, dy: Array) -> Array:
        groups, kernel = concrete(self.groups), concrete_shape(self.kernel)
        windows = self._windows(kernel)
        outputs, depth = dy.shape[1], x.shape[1] // groups
        result = np.zeros((groups, outputs // groups, prod(kernel) * depth), x.dtype)
        for part in windows.batches(x.shape):
            rows = self._split(windows.rows(x[part]), result.shape[2])
            cotangents = self._split(channels_last(dy[part]), result.shape[1])
            result += np.swapaxes(cotangents, 1, 2) @ rows
        return channels_first(result.reshape(outputs, *kernel, depth))

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        x, dy = out.operands
        to_x = ConvInputGradient(*self._geometry, x.type.shape[2:])
        return build.add(to_x, cotangent, dy), build.add(Conv(*self._geometry), x, cotangent)

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        _, dy = operands
        return 2 * element_count(dy) * element_count(result) // concrete(result.shape[0])


OPS: tuple[type[Op], ...] = (MatMul, Conv, ConvInputGradient, ConvWeightGradient)
