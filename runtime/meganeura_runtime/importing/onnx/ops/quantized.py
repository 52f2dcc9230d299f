"""Quantization: whole numbers of a few bits, and the floats that they stand for.

Levels are computed as f32, which has all whole numbers up to 2^24: those of 16 bits and less, and
sums of 2^8 products of 8 bits at least. They become i32 only where something reads them as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto as Proto

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Limits, Rounding, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.levels import levels_of
from meganeura_runtime.importing.onnx.node import Known, Node, Value
from meganeura_runtime.importing.onnx.number_text import number_text
from meganeura_runtime.importing.onnx.onnx_file import type_name
from meganeura_runtime.importing.onnx.ops.elementwise import Entry
from meganeura_runtime.importing.onnx.ops.products import convolved, matmul
from meganeura_runtime.importing.onnx.small_integers import SMALL, as_float, as_small, limits_of

FLOATS: Mapping[int, DType] = {Proto.FLOAT: DType.F32, Proto.FLOAT16: DType.F16}
QUANTIZED = "_quantized"
"""The end of the names that ONNX Runtime gives to levels of weights."""
BYTE = 255.0

Factor = Tensor | float
"""A scale or a zero point: a number, or a tensor that broadcasts to what it belongs to."""


def _require(node: Node, levels: int, *factors: tuple[int, int]) -> None:
    """Raise `UnsupportedNodeError` unless operands are levels with scales and zero points that fit.

    Each of the factors is a scale and its zero point; that of the first is of the levels' type.
    """
    build, kinds = node.build, [node.value(levels)] if levels >= 0 else []
    for scale, zero in factors:
        if scale >= 0 and not _is_number(node.value(scale), is_float=True):
            raise UnsupportedNodeError("its scale is of a type that is not read")
        kinds += [node.value(zero)] if node.has(zero) else []
    if not all(_is_number(each, is_float=False) for each in kinds):
        raise UnsupportedNodeError("its levels or its zero point are no whole numbers")
    if len({limits_of(build, each) for each in kinds}) > 1:
        raise UnsupportedNodeError("its levels and its zero point are of different types")


def _is_number(value: Value, *, is_float: bool) -> bool:
    is_symbolic = isinstance(value, Known) and value.is_symbolic
    return not is_symbolic and value.dtype is not DType.BOOL and value.dtype.is_float == is_float


def _quantize(node: Node) -> list[Value | None]:
    _require(node, -1, (1, 2))
    x, limits = node.value(0), _wanted(node)
    if not _is_number(x, is_float=True):
        raise UnsupportedNodeError(f"it is applied to {x.dtype.value}")
    if isinstance(x, Known) and _is_known(node, 1) and _is_known(node, 2):
        return [_known_levels(node, x, limits)]
    x = node.tensor(0)
    scale, zero = _factor(node, 1, x.shape), _factor(node, 2, x.shape)
    levels = _levels(node, x, scale, zero, limits)
    built = as_small(node.build, levels, limits)
    if not isinstance(scale, Tensor) and not isinstance(zero, Tensor) and x.dtype is DType.F32:
        node.build.quantized[built.id] = Rounding(x, scale, zero, limits)
    return [built]


def _wanted(node: Node) -> Limits:
    """The limits of the levels, by the type of the zero point or the attribute `output_dtype`."""
    kind = node.attribute("output_dtype", 0)
    given = limits_of(node.build, node.value(2)) if node.has(2) else None
    if node.attribute("precision", 0) not in (0, *FLOATS):
        raise UnsupportedNodeError("its precision is neither that of float nor of float16")
    if kind and kind not in SMALL:
        raise UnsupportedNodeError(f"its levels are of the type {type_name(kind)}")
    if node.has(2) and given is None:
        raise UnsupportedNodeError("its zero point has more than 16 bits")
    return given or SMALL[kind or Proto.UINT8]


def _levels(node: Node, x: Tensor, scale: Factor, zero: Factor, limits: Limits) -> Tensor:
    """Returns f32 that are whole numbers: `x / scale`, rounded half to even, and more by `zero`."""
    build = node.build
    if isinstance(scale, Tensor) and scale.dtype is not x.dtype:
        x = build.cast(x, scale.dtype)
    rounded = build.elementwise("round", build.binary("/", x, scale))
    moved = _moved(node, build.cast(rounded, DType.F32), "+", zero)
    above = build.pair("maximum", moved, float(limits.low))
    return build.pair("minimum", above, float(limits.high))


def _moved(node: Node, x: Tensor, operator: str, zero: Factor) -> Tensor:
    return x if not isinstance(zero, Tensor) and zero == 0 else node.build.binary(operator, x, zero)


def _dequantize(node: Node) -> list[Value | None]:
    _require(node, 0, (1, 2))
    build, x = node.build, node.value(0)
    kind = node.attribute("output_dtype", 0)
    if kind and kind not in FLOATS:
        raise UnsupportedNodeError(f"its result is of the type {type_name(kind)}")
    dtype = FLOATS[kind] if kind else node.value(1).dtype
    if isinstance(x, Known) and _is_known(node, 1) and _is_known(node, 2):
        return [_numbers(node, x, dtype)]
    x = node.tensor(0)
    scale, zero = _factor(node, 1, x.shape), _factor(node, 2, x.shape)
    before = build.quantized.get(x.id)
    if before is not None and (before.scale, before.zero, dtype) == (scale, zero, DType.F32):
        return [_rounded(node, before)]
    centered = build.cast(_moved(node, as_float(node, x), "-", zero), dtype)
    if isinstance(scale, Tensor):
        scale = build.cast(scale, dtype)
    return [build.binary("*", centered, scale)]


def _rounded(node: Node, of: Rounding) -> Tensor:
    """Numbers that are quantized and dequantized at once."""
    config = [(number_text(of.scale),)]
    if of.zero:
        config.append((f"zero={int(of.zero)}",))
    if (of.limits.low, of.limits.high) != (-128, 127):
        config += [(f"low={of.limits.low}",), (f"high={of.limits.high}",)]
    return node.build.block("fake_quantize", of.source, *config)


def dequantized_weights(node: Node, levels: int, scale: int) -> Value:
    """Operands as weights [directions, inputs, outputs]: levels, their scales, their zero points.

    There is one scale for each direction, or one for each output of a direction.
    """
    x, build = node.value(levels), node.build
    factors: list[Value | None] = [node.value(scale)]
    factors.append(node.value(scale + 1) if node.has(scale + 1) else None)
    attributes = {"axis": 0}
    if node.value(scale).rank == 2:
        inputs = x.shape[1]
        if not isinstance(inputs, int):
            raise UnsupportedNodeError("its weights have an open size")
        attributes = {"axis": 1, "block_size": inputs}
        factors = [each and _with_axis(build, each) for each in factors]
    of = replace(node, op="DequantizeLinear", inputs=[x, *factors], attributes=attributes)
    (found,) = _dequantize(of)
    assert found is not None
    return found


def _with_axis(build: Builder, factor: Value) -> Value:
    """A matrix of scales or zero points, of which a row belongs to many rows of levels."""
    rows, *columns = factor.shape
    if isinstance(factor, Known):
        return replace(factor, array=factor.array[:, None])
    return build.reshape(factor, (rows, 1, *columns))


# --- constants -----------------------------------------------------------------------------------


def _is_known(node: Node, index: int) -> bool:
    return not node.has(index) or isinstance(node.value(index), Known)


def _array(node: Node, index: int, like: Array) -> Array:
    """A known scale or zero point with as many axes as what it belongs to, 0 if it is absent."""
    if not node.has(index):
        return np.zeros((1,) * like.ndim, np.float32)
    known = node.value(index)
    assert isinstance(known, Known)
    array = known.array
    if array.size == 1:
        return array.reshape((1,) * like.ndim)
    if array.ndim == like.ndim and _block(node):
        return array
    axis = node.axis(1, like.ndim)
    if array.shape != like.shape[axis : axis + 1]:
        raise UnsupportedNodeError("its scale or its zero point has other sizes than its axis")
    return array.reshape([-1 if each == axis else 1 for each in range(like.ndim)])


def _block(node: Node) -> int:
    size = node.attribute("block_size", 0)
    if size < 0:
        raise UnsupportedNodeError("its blocks have a negative size")
    return size


def _spread(node: Node, array: Array, like: Array) -> Array:
    """Scales or zero points of blocks, as many as there are indices."""
    block = _block(node)
    if not block or array.size == 1 or array.ndim != like.ndim:
        return array
    axis = node.axis(1, like.ndim)
    wanted = list(like.shape)
    wanted[axis] = -(-wanted[axis] // block)
    if list(array.shape) != wanted:
        raise UnsupportedNodeError("its scale or its zero point has other sizes than its blocks")
    repeated: Array = np.repeat(array, block, axis)
    return repeated[tuple(slice(size) for size in like.shape)]


def _known_levels(node: Node, x: Known, limits: Limits) -> Known:
    """The levels of a constant."""
    scale, zero = (_spread(node, _array(node, at, x.array), x.array) for at in (1, 2))
    with np.errstate(all="ignore"):
        rounded = np.rint(x.array.astype(scale.dtype) / scale).astype(np.float32)
        found = np.clip(rounded + zero.astype(np.float32), limits.low, limits.high)
    levels = np.nan_to_num(found).astype(np.int32)
    name = x.name if node.sites[x.name] == 1 else ""
    return Known(levels, DType.I32, name, limits=limits)


def _numbers(node: Node, x: Known, dtype: DType) -> Known:
    """The numbers that constant levels stand for.

    They have the name of the levels, unless those are read elsewhere, or with other scales.
    """
    scales, zero = _array(node, 1, x.array), _array(node, 2, x.array)
    centered = x.array.astype(np.int64) - _spread(node, zero, x.array).astype(np.int64)
    kind = np.float16 if dtype is DType.F16 else np.float32
    with np.errstate(all="ignore"):
        scale = _spread(node, scales, x.array).astype(kind)
        array = centered.astype(np.float32).astype(kind) * scale
        levels = levels_of(centered, scales)
    claim = (scales.tobytes(), zero.tobytes())
    name = x.name.removesuffix(QUANTIZED)
    if name != x.name and name in node.sites:
        name = x.name
    if x.name in node.constants or node.build.dequantized.setdefault(name, claim) != claim:
        name = ""
    return Known(array, dtype, name, x.is_turned, levels=levels)


def _factor(node: Node, index: int, shape: Sequence[Size]) -> Factor:
    """A scale, or a zero point in f32: a number, or a tensor that broadcasts to a shape."""
    build = node.build
    if not node.has(index):
        return 0.0
    found = node.value(index)
    is_one = found.rank == 0 or tuple(found.shape) == (1,)
    if isinstance(found, Known) and found.array.size == 1 and is_one:
        return float(found.numbers[0])  # pyright: ignore[reportArgumentType] - of floats or small numbers
    x = as_float(node, found) if limits_of(build, found) else node.tensor(index)
    if not x.dtype.is_float:
        x = build.cast(x, DType.F32)
    if is_one:
        return build.reshape(x, ())
    block = _block(node)
    axis = node.axis(1, len(shape))
    if block and x.rank == len(shape):
        return _blocks(node, x, axis, block, shape)
    if x.rank != 1:
        raise UnsupportedNodeError("its scale or its zero point has other axes than it has")
    build.need("==", x.shape[0], shape[axis], "it has another number of scales or zero points")
    return build.along(x, axis, tuple(shape))


def _blocks(node: Node, x: Tensor, axis: int, block: int, shape: Sequence[Size]) -> Tensor:
    """Each index of an axis repeated as often as a block is long, up to the size of the axis."""
    build, (before, count, after) = node.build, (x.shape[:axis], x.shape[axis], x.shape[axis + 1 :])
    apart = build.reshape(x, (*before, count, 1, *after))
    whole = build.expand(apart, (*before, count, block, *after))
    spread = build.reshape(whole, (*before, count * block, *after))
    return build.between(spread, axis, 0, shape[axis])


# --- products of levels --------------------------------------------------------------------------


def _centered(node: Node, index: int, zero: int, axis: int) -> Value:
    """Levels less their zero points, as f32; of constants a constant."""
    x = node.value(index)
    like = replace(node, attributes={"axis": axis})
    if isinstance(x, Known) and _is_known(node, zero):
        array = x.array.astype(np.int64) - _array(like, zero, x.array).astype(np.int64)
        levels = levels_of(array, np.ones((1,) * x.rank, np.float32))
        name = x.name if node.sites[x.name] == 1 else ""
        return Known(array.astype(np.float32), DType.F32, name, x.is_turned, levels=levels)
    offset = _factor(like, zero, x.shape)
    return _moved(node, as_float(node, x), "-", offset)


def _whole(node: Node, x: Tensor) -> Tensor:
    """Sums of products of levels, whole also where a kernel sums in another way.

    Whatever scales them is not moved into the product, whose ties would be rounded otherwise then.
    """
    return node.build.elementwise("round", x)


def _as_i32(node: Node, x: Tensor) -> Tensor:
    """Such sums as i32; what was their f32 is remembered."""
    whole = _whole(node, x)
    built = node.build.cast(whole, DType.I32)
    node.build.floats[built.id] = whole
    return built


def _requantized(node: Node, x: Tensor, scales: Sequence[tuple[int, int]]) -> Tensor:
    """Sums of products of levels as levels of another scale.

    `scales` are those of the two factors and of the result, as operands, each with the axis that it
    may have an entry for each index of. Behind the last is the zero point.
    """
    build, at = node.build, scales[-1][0]
    limits = limits_of(build, node.value(at + 1))
    if limits is None:
        raise UnsupportedNodeError("its zero point has more than 16 bits")
    total = build.binary("*", _whole(node, x), _ratio(node, x, scales))
    zero = _factor(node, at + 1, x.shape)
    moved = _moved(node, build.elementwise("round", total), "+", zero)
    above = build.pair("maximum", moved, float(limits.low))
    return as_small(build, build.pair("minimum", above, float(limits.high)), limits)


def _ratio(node: Node, x: Tensor, scales: Sequence[tuple[int, int]]) -> Factor:
    """The product of two scales over the third, computed at once where all are known."""
    build, found = node.build, [node.value(at) for at, _ in scales]
    known = [each.array.astype(np.float32) for each in found if isinstance(each, Known)]
    rows = [axis for value, (_, axis) in zip(found, scales, strict=True) if value.rank]
    if len(known) == len(scales) and all(each.ndim < 2 for each in known) and len(rows) < 2:
        a, b, c = known
        with np.errstate(all="ignore"):
            ratio = a * b / c
        if ratio.size == 1:
            return float(ratio.reshape(-1)[0])
        return build.along(node.written(Known(ratio, DType.F32)), rows[0], x.shape)
    a, b, c = (
        _factor(replace(node, attributes={"axis": axis}), at, x.shape) for at, axis in scales
    )
    return _quotient(node, _product(node, a, b), c)


def _product(node: Node, a: Factor, b: Factor) -> Factor:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return node.build.binary("*", _single(node, a), _single(node, b))
    return float(np.float32(a) * np.float32(b))


def _quotient(node: Node, a: Factor, b: Factor) -> Factor:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return node.build.binary("/", _single(node, a), _single(node, b))
    return float(np.float32(a) / np.float32(b))


def _single(node: Node, x: Factor) -> Factor:
    return node.build.cast(x, DType.F32) if isinstance(x, Tensor) else x


def _require_levels(node: Node) -> None:
    """Raise `UnsupportedNodeError` for an op of three scales and zero points that misfit."""
    _require(node, 0, (1, 2))
    _require(node, 3, (4, 5))
    _require(node, -1, (6, 7))
    if node.has(8) and not _is_number(node.value(8), is_float=False):
        raise UnsupportedNodeError("its bias is no whole numbers")


def _matmul_integer(node: Node) -> list[Value | None]:
    _require(node, 0, (-1, 2))
    _require(node, 1, (-1, 3))
    rows, columns = node.value(0).rank - 2, node.value(1).rank - 1
    sides = [_centered(node, 0, 2, max(rows, 0)), _centered(node, 1, 3, columns)]
    a, b = (each if isinstance(each, Tensor) else node.written(each) for each in sides)
    return [_as_i32(node, matmul(node.build, a, b))]


def _qlinear_matmul(node: Node) -> list[Value | None]:
    _require_levels(node)
    rows, columns = node.value(0).rank - 2, node.value(3).rank - 1
    sides = [_centered(node, 0, 2, max(rows, 0)), _centered(node, 3, 5, columns)]
    a, b = (each if isinstance(each, Tensor) else node.written(each) for each in sides)
    y = matmul(node.build, a, b)
    row = max(y.rank - 2, 0)
    return [_requantized(node, y, ((1, row), (4, y.rank - 1), (6, row)))]


def _conv_integer(node: Node) -> list[Value | None]:
    _require(node, 0, (-1, 2))
    _require(node, 1, (-1, 3))
    inputs = [_centered(node, 0, 2, 1), _centered(node, 1, 3, 0)]
    return [_as_i32(node, convolved(replace(node, op="Conv", inputs=inputs)))]


def _qlinear_conv(node: Node) -> list[Value | None]:
    _require_levels(node)
    inputs: list[Value] = [_centered(node, 0, 2, 1), _centered(node, 3, 5, 0)]
    if node.has(8):
        bias = node.value(8)
        inputs.append(
            replace(bias, array=bias.array.astype(np.float32), dtype=DType.F32)
            if isinstance(bias, Known)
            else node.build.cast(bias, DType.F32)
        )
    y = convolved(replace(node, op="Conv", inputs=inputs))
    return [_requantized(node, y, ((1, 1), (4, 1), (6, 1)))]


def _dynamic_quantize(node: Node) -> list[Value | None]:
    """Levels of 8 bits from the smallest to the largest number, of which one is 0."""
    build, x, limits = node.build, node.tensor(0), SMALL[Proto.UINT8]
    axes = range(x.rank)
    high = build.pair("maximum", build.reduce("max", x, axes, keep=False), 0.0)
    low = build.pair("minimum", build.reduce("min", x, axes, keep=False), 0.0)
    step = build.binary("/", build.binary("-", high, low), BYTE)
    scale = build.where(build.binary("==", step, 0.0), 1.0, step)
    middle = build.elementwise("round", build.negative(build.binary("/", low, scale)))
    zero = build.pair("minimum", build.pair("maximum", middle, 0.0), BYTE)
    levels = as_small(build, _levels(node, x, scale, zero, limits), limits)
    return [levels, scale, as_small(build, zero, limits)]


OPS: Mapping[str, Entry] = {
    "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize, "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer, "QLinearMatMul": _qlinear_matmul, "QLinearConv": _qlinear_conv,
}  # fmt: skip
"""The translation of each op."""
