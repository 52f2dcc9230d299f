"""Contractions, in the types that the precision asks for.

The gradients of a convolution are its transposes, which XLA makes the convolutions of cuDNN.
"""

from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, MatMul
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.backends.xla.config.measured_choices import (
    ALIGNED_PRODUCTS,
    DEPTHWISE_BY_TAPS,
)
from meganeura_runtime.backends.xla.lowering.element_types import NARROW
from meganeura_runtime.backends.xla.ops.matmul import LibraryMatMul


@dataclass(frozen=True)
class Arithmetic:
    """Types and exactness of a contraction."""

    operands: np.dtype[np.generic] | None
    """Type that both operands are converted to; `None` leaves them as they are stored."""
    result: np.dtype[np.generic]
    """Type of a matrix product; sums are float32, and a convolution is rounded after."""
    precision: lax.Precision
    """Exactness of products of float32."""
    pads_to_alignment: bool = False
    """Long axes of matrices get zeros up to a multiple; see `ALIGNED_PRODUCTS`."""
    unaligned_output: bool = False
    """The result has rows that are no multiple, which XLA must not pad either."""
    sums_taps: bool = False
    """The gradient of a large depthwise kernel is one sum of products for each element."""


def mat_mul(op: MatMul, by: Arithmetic, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the matrix product of a and b."""
    if b.ndim == 2 and a.ndim > 2 and not op.transpose_left:
        # Rows of rows are rows: what several products read is padded once for all of them.
        rows = lax.reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
        product = mat_mul(op, by, rows, b)
        return lax.reshape(product, (*a.shape[:-1], product.shape[-1]))
    shared = b.ndim == 2 and a.ndim != 2
    batch = () if shared else tuple(range(a.ndim - 2))
    left = a.ndim - 2 if op.transpose_left else a.ndim - 1
    right = b.ndim - 1 if op.transpose_right else b.ndim - 2
    a, b = _converted(by, a, b)
    if by.unaligned_output:
        # XLA pads bfloat16 operands, but not float32 ones that this algorithm rounds to bfloat16.
        a, b = lax.convert_element_type(a, np.float32), lax.convert_element_type(b, np.float32)
    free = [size for axis, size in enumerate(b.shape) if axis not in (*batch, right)]
    shape = (*(size for axis, size in enumerate(a.shape) if axis != left), *free)
    product = lax.dot(
        _padded(a) if by.pads_to_alignment else a,
        _padded(b) if by.pads_to_alignment else b,
        dimension_numbers=(((left,), (right,)), (batch, batch)),
        precision=lax.DotAlgorithmPreset.BF16_BF16_F32 if by.unaligned_output else by.precision,
        preferred_element_type=by.result,
    )
    if product.shape == shape:
        return product
    if by.result not in NARROW:
        # XLA would add what is added to its part within the product, and copy that part.
        product = lax.optimization_barrier(product)
    return lax.slice(product, (0,) * len(shape), shape, (1,) * len(shape))


def library_mat_mul(
    op: LibraryMatMul, by: Arithmetic, a: jax.Array, b: jax.Array, bias: jax.Array
) -> jax.Array:
    """Returns the approximate gelu of a product and its bias, in a form that cuBLASLt gets.

    That computes all of it in float32, so the steps between are in the type of the result.
    """
    rows = lax.reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
    found = mat_mul(op.whole.product, by, rows, b)
    bias = lax.convert_element_type(bias, by.result)
    found = nn.gelu(found + lax.broadcast_in_dim(bias, found.shape, (1,)), approximate=True)
    return lax.reshape(found, (*a.shape[:-1], found.shape[-1]))


def has_unaligned_axis(of: TensorType) -> bool:
    """True if a product of that type is a slice of one whose long axes are padded."""
    return any(_padding(size) for size in concrete_shape(of.shape))


def has_aligned_columns(value: Value) -> bool:
    """True for a product by a matrix whose rows are unaligned and whose columns are aligned."""
    *rows, row = concrete_shape(value.type.shape)
    is_of_rows = len(value.operands) == 2 and value.operands[1].type.rank == 2
    return is_of_rows and _padding(row) > 0 and prod(rows) % ALIGNED_PRODUCTS.value.multiple == 0


def _padding(size: int) -> int:
    """Returns the number of zeros that align an axis of this size; 0 for a short axis."""
    alignment = ALIGNED_PRODUCTS.value
    return -size % alignment.multiple if size >= alignment.least else 0


def _padded(x: jax.Array) -> jax.Array:
    """Returns x with zeros behind its long axes; see `ALIGNED_PRODUCTS`."""
    missing = [_padding(size) for size in x.shape]
    if not any(missing):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, more, 0) for more in missing])


def conv(op: Conv, by: Arithmetic, x: jax.Array, w: jax.Array) -> jax.Array:
    """Returns the cross-correlation of x with w."""
    return _conv(op, by, *_converted(by, x, w))


def conv_input_gradient(
    op: ConvInputGradient, by: Arithmetic, w: jax.Array, dy: jax.Array
) -> jax.Array:
    """Returns the transpose of `conv` in x."""
    w, dy = _converted(by, w, dy)
    channels = w.shape[1] * concrete(op.groups)
    shape = (dy.shape[0], channels, *concrete_shape(op.spatial))
    x = jax.ShapeDtypeStruct(shape, dy.dtype)
    return jax.linear_transpose(lambda x: _conv(op, by, x, w), x)(dy)[0]


def conv_weight_gradient(
    op: ConvWeightGradient, by: Arithmetic, x: jax.Array, dy: jax.Array
) -> jax.Array:
    """Returns the transpose of `conv` in w."""
    x, dy = _converted(by, x, dy)
    if by.sums_taps and _is_large_depthwise(op, x, dy):
        return _sums_of_taps(op, x, dy)
    shape = (dy.shape[1], x.shape[1] // concrete(op.groups), *concrete_shape(op.kernel))
    w = jax.ShapeDtypeStruct(shape, x.dtype)
    return jax.linear_transpose(lambda w: _conv(op, by, x, w), w)(dy)[0]


def _is_large_depthwise(op: ConvWeightGradient, x: jax.Array, dy: jax.Array) -> bool:
    """True if each channel has its own kernel, and cuDNN has none for its size."""
    channels = concrete(op.groups)
    is_depthwise = x.shape[1] == dy.shape[1] == channels > 1
    return (
        is_depthwise and x.ndim == 4 and prod(concrete_shape(op.kernel)) > DEPTHWISE_BY_TAPS.value
    )


def _sums_of_taps(op: ConvWeightGradient, x: jax.Array, dy: jax.Array) -> jax.Array:
    """Returns dw[c, 0, i, j] = sum over n, y, x of x[n, c, y + i, x + j] dy[n, c, y, x].

    In float32 cuDNN would launch a kernel or two for each channel.
    """
    steps, gaps = concrete_shape(op.stride), concrete_shape(op.dilation)
    edges = [(0, 0, 0), (0, 0, 0), *((size, size, 0) for size in concrete_shape(op.padding))]
    padded = lax.pad(x, jnp.zeros((), x.dtype), edges)
    rows, columns = concrete_shape(op.kernel)

    def product(*tap: int) -> jax.Array:
        start = [0, 0, *(at * gap for at, gap in zip(tap, gaps, strict=True))]
        count = zip(dy.shape[2:], steps, strict=True)
        spans = [*dy.shape[:2], *((size - 1) * step + 1 for size, step in count)]
        stop = [first + span for first, span in zip(start, spans, strict=True)]
        return lax.slice(padded, start, stop, (1, 1, *steps)) * dy

    # XLA sums a row of taps by one kernel, and all of them by too large a kernel.
    taps = [jnp.stack([product(row, column) for column in range(columns)]) for row in range(rows)]
    sums = jnp.stack([jnp.sum(each, axis=(1, 3, 4), dtype=dy.dtype) for each in taps])
    return jnp.moveaxis(sums, 2, 0)[:, None]


def _conv(op: Convolution, by: Arithmetic, x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x,
        w,
        concrete_shape(op.stride),
        [(size, size) for size in concrete_shape(op.padding)],
        rhs_dilation=concrete_shape(op.dilation),
        feature_group_count=concrete(op.groups),
        precision=by.precision,
    )


def _converted(by: Arithmetic, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    if by.operands is None:
        return a, b
    return lax.convert_element_type(a, by.operands), lax.convert_element_type(b, by.operands)
