"""Pools over windows, and resizing."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Piece, Ref, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry
from meganeura_runtime.importing.onnx.ops.products import positive, window_pads

LOWEST = float(np.finfo(np.float32).min)
LARGEST_AXIS = 4096
"""The largest axis that is resized by a matrix."""
MOST_PLACES = 256
"""The most places of a dilated window along one axis, each a term of its own."""


def _geometry(
    node: Node, x: Tensor
) -> tuple[list[int], list[int], list[int], list[int], list[int], list[Size]]:
    """Kernel, strides, dilations, padding before and after, and the sizes of the result."""
    rank = x.rank - 2
    kernel = list(node.attribute("kernel_shape", []))
    if rank < 1 or len(kernel) != rank:
        raise UnsupportedNodeError("its window has other axes than its operand")
    kernel = positive(node, "kernel_shape", rank)
    strides, dilations = positive(node, "strides", rank), positive(node, "dilations", rank)
    before, after = window_pads(node, x.shape[2:], kernel, strides, dilations)
    sizes: list[Size] = []
    for axis, size in enumerate(x.shape[2:]):
        span, stride = dilations[axis] * (kernel[axis] - 1) + 1, strides[axis]
        total = size + before[axis] + after[axis] - span
        node.build.need(">=", total, 0, "its window does not fit")
        out = total // stride + 1
        if (
            node.attribute("ceil_mode", 0)
            and node.attribute("auto_pad", "NOTSET") == "NOTSET"
            and stride > 1
        ):
            if not isinstance(size, int) or not isinstance(out, int):
                raise UnsupportedNodeError("it rounds up a size that is open")
            up = -(-(size + before[axis] + after[axis] - span) // stride) + 1
            if (up - 1) * stride >= size + before[axis]:
                up -= 1
            after[axis] += max(0, (up - 1) * stride + span - size - before[axis] - after[axis])
            out = up
        sizes.append(out)
    return kernel, strides, dilations, before, after, sizes


def _padded(
    build: Builder, x: Tensor, before: Sequence[int], after: Sequence[int], value: float
) -> Tensor:
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        x = build.pad(x, axis + 2, low, high, value)
    return x


def _numbers(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"[{', '.join(map(str, values))}]"


def _max_pool(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    if node.wants(1):
        raise UnsupportedNodeError("the positions of the largest are asked for")
    if not x.dtype.is_float:
        raise UnsupportedNodeError("it is applied to whole numbers")
    kernel, strides, dilations, before, after, sizes = _geometry(node, x)
    shape = (*x.shape[:2], *sizes)
    if set(dilations) != {1}:
        x = _padded(build, x, before, after, LOWEST)
        return [_dilated_max(build, x, (kernel, strides, dilations), shape)]
    is_even = before == after and all(2 * pad <= k for pad, k in zip(before, kernel, strict=True))
    if not is_even:
        x, before = _padded(build, x, before, after, LOWEST), [0] * len(before)
    callee, is_block = "window_max", False
    if len(set(kernel)) == len(set(strides)) == len(set(before)) == 1:
        callee, is_block = "max_pool", True
    config: list[tuple[Piece, ...]] = [(_numbers(kernel),)]
    if strides != kernel or any(before):
        config.append((_numbers(strides),))
    if any(before):
        config.append((f"pad={_numbers(before)}",))
    make = build.block if is_block else build.call
    return [make(callee, x, *config, shape=shape)]


def _dilated_max(
    build: Builder,
    x: Tensor,
    windows: tuple[Sequence[int], Sequence[int], Sequence[int]],
    shape: tuple[Size, ...],
) -> Tensor:
    """Along one axis after the other, the largest of the places of the window."""
    for axis, (k, stride, dilation) in enumerate(zip(*windows, strict=True), 2):
        if k > MOST_PLACES:
            raise UnsupportedNodeError(f"its dilated window has {k:,} places along an axis")
        starts = [position * dilation for position in range(k)]
        if stride == 1:
            parts = [build.between(x, axis, each, each + shape[axis]) for each in starts]
        else:
            positions = [_positions(build, shape[axis], stride, each) for each in starts]
            parts = [build.gather(x, each, axis) for each in positions]
        x = parts[0]
        for each in parts[1:]:
            x = build.pair("maximum", x, each)
    return x


def _positions(build: Builder, count: Size, stride: int, start: int) -> Tensor:
    positions = build.binary("*", build.iota(count), stride)
    return build.binary("+", positions, start) if start else positions


def _average_pool(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    kernel, strides, dilations, before, after, sizes = _geometry(node, x)
    shape = (*x.shape[:2], *sizes)
    counted = bool(node.attribute("count_include_pad", 0))
    is_plain = set(dilations) == {1} and before == after and (counted or not any(before))
    is_square = len(set(kernel)) == len(set(strides)) == len(set(before)) == 1
    if is_plain and is_square and not _is_rounded_up(node):
        config: list[tuple[Piece, ...]] = [(str(kernel[0]),)]
        if strides != kernel or any(before):
            config.append((str(strides[0]),))
        if any(before):
            config.append((f"pad={before[0]}",))
        return [build.block("avg_pool", x, *config, shape=shape)]
    own = build.filled(1, x.dtype, (1, 1, *x.shape[2:]))
    if counted:
        pads = window_pads(node, x.shape[2:], kernel, strides, dilations)
        own = _padded(build, own, pads[0], pads[1], 1.0)
        rest = [high - pad for high, pad in zip(after, pads[1], strict=True)]
        own = _padded(build, own, [0] * len(rest), rest, 0.0)
    else:
        own = _padded(build, own, before, after, 0.0)
    x = _padded(build, x, before, after, 0.0)
    total = _window_sum(build, x, kernel, strides, dilations, shape)
    counts = _window_sum(build, own, kernel, strides, dilations, (1, 1, *sizes))
    return [build.binary("/", total, counts)]


def _is_rounded_up(node: Node) -> bool:
    return bool(node.attribute("ceil_mode", 0))


def _window_sum(
    build: Builder,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    shape: tuple[Size, ...],
) -> Tensor:
    channels = x.shape[1]
    window = build.filled(1, x.dtype, (channels, 1, *kernel))
    config: list[tuple[Piece, ...]] = [(Ref(window.id),)]
    if set(strides) != {1}:
        config.append((f"stride={_numbers(strides)}",))
    if set(dilations) != {1}:
        config.append((f"dilation={_numbers(dilations)}",))
    if channels != 1:
        config.append((f"groups={channels}",) if isinstance(channels, int) else _groups(channels))
    return build.call("conv", x, *config, shape=shape)


def _groups(channels: Size) -> tuple[Piece, ...]:
    raise UnsupportedNodeError(f"the number of channels is open: {channels}")


def _lp_pool(node: Node) -> list[Value | None]:
    build, x, p = node.build, node.tensor(0), node.attribute("p", 2)
    if p < 1:
        raise UnsupportedNodeError(f"its norm is of order {p}")
    kernel, strides, dilations, before, after, sizes = _geometry(node, x)
    size = build.elementwise("abs", x) if p % 2 else x
    size = size if p == 1 else build.power(size, p)
    size = _padded(build, size, before, after, 0.0)
    total = _window_sum(build, size, kernel, strides, dilations, (*x.shape[:2], *sizes))
    if p > 2:
        logarithm = build.binary("/", build.elementwise("log", total), float(p))
        return [build.elementwise("exp", logarithm)]
    return [total if p == 1 else build.elementwise("sqrt", total)]


# --- resizing ------------------------------------------------------------------------------------


def _resize(node: Node) -> list[Value | None]:
    """Resizes each axis by itself: repeated, indexed, or multiplied with a matrix of weights."""
    x = node.tensor(0)
    attributes = dict(node.attributes)
    axes = attributes.pop("axes", None)
    axes = list(range(x.rank)) if axes is None else [node.checked_axis(a, x.rank) for a in axes]
    scales, sizes = _scales(node, axes)
    roi = None
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = [float(each) for each in node.numbers(1, "region")]  # pyright: ignore[reportArgumentType] - numbers
        if not all(0 <= each <= 1 for each in roi):
            raise UnsupportedNodeError("its region is partly outside")
    policy = attributes.pop("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        sizes = _proportional(x, axes, sizes, policy)
        scales = [None] * len(axes)
    for index, axis in enumerate(axes):
        part = None if roi is None else [roi[index], roi[index + len(axes)]]
        x = _resized(node, x, axis, scales[index], sizes[index], attributes, part)
    return [x]


def _scales(node: Node, axes: Sequence[int]) -> tuple[list[float | None], list[Size | None]]:
    """Returns a scale or a size for each axis."""
    if node.op == "Upsample" or len(node.inputs) == 2:
        return _floats(node.attributes.get("scales") or node.numbers(1, "scales")), [None] * len(
            axes
        )
    if node.has(2) and node.value(2).shape != (0,):
        return _floats(node.numbers(2, "scales")), [None] * len(axes)
    return [None] * len(axes), list(node.sizes(3, "sizes"))


def _floats(numbers: Sequence[object]) -> list[float | None]:
    if not all(isinstance(each, int | float) for each in numbers):
        raise UnsupportedNodeError("its scales depend on sizes")
    return [float(each) for each in numbers if isinstance(each, int | float)]


def _proportional(
    x: Tensor, axes: Sequence[int], sizes: Sequence[Size | None], policy: str
) -> list[Size | None]:
    old = [size for axis in axes if isinstance(size := x.shape[axis], int)]
    new = [size for size in sizes if isinstance(size, int)]
    if len(old) != len(axes) or len(new) != len(axes):
        raise UnsupportedNodeError("its proportions depend on a size that is open")
    ratios = [a / b for a, b in zip(new, old, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(np.floor(scale * size + 0.5)) for size in old]


def _resized(
    node: Node,
    x: Tensor,
    axis: int,
    scale: float | None,
    size: Size | None,
    attributes: Mapping[str, object],
    roi: Sequence[float] | None,
) -> Tensor:
    build, old = node.build, x.shape[axis]
    if roi is None and (scale == 1 or (size is not None and build.same(size, old))):
        return x
    mode = attributes.get("mode", "nearest")
    times = _times(old, scale, size)
    if mode == "nearest" and times is not None and roi is None and _repeats(attributes, node):
        shape = (*x.shape[:axis], old * times, *x.shape[axis + 1 :])
        return build.call("repeat", x, (f"{axis}",), (f"{times}",), shape=shape)
    if not isinstance(old, int) or isinstance(size, Dim):
        raise UnsupportedNodeError("it resizes an axis whose size is open, not by repetition")
    new = size if scale is None else scale * old
    if old > LARGEST_AXIS or new is None or not 1 <= new <= LARGEST_AXIS:
        raise UnsupportedNodeError(f"an axis is resized beyond 1 to {LARGEST_AXIS:,}")
    matrix = _matrix(node, old, scale, size, attributes, roi)
    if mode == "nearest" and not (matrix.sum(1) != 1).any():
        ids = Known(matrix.argmax(1), DType.I32)
        return build.gather(x, node.written(ids), axis)
    order = [*(each for each in range(x.rank) if each != axis), axis]
    moved = build.transpose(x, order)
    weights = node.written(Known(np.ascontiguousarray(matrix.T).astype(np.float32), DType.F32))
    back = [order.index(each) for each in range(x.rank)]
    return build.transpose(build.matmul(moved, build.cast(weights, x.dtype)), back)


def _times(old: Size, scale: float | None, size: Size | None) -> int | None:
    if scale is not None:
        return int(scale) if scale >= 1 and float(scale).is_integer() else None
    if size is None:
        return None
    times = size // old
    return times if isinstance(times, int) and times >= 1 and times * old == size else None


def _repeats(attributes: Mapping[str, object], node: Node) -> bool:
    """True if the nearest of a whole multiple is each element in a row."""
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    if node.opset < 11:
        return True
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    if mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return rounding in ("round_prefer_floor", "round_prefer_ceil")
    return mode == "asymmetric" and rounding == "floor"


def _matrix(
    node: Node,
    old: int,
    scale: float | None,
    size: Size | None,
    attributes: Mapping[str, object],
    roi: Sequence[float] | None,
) -> Array:
    """Returns the weights of a resize, result by operand, by ONNX's own reference."""
    given = dict(attributes)
    if node.opset < 11:
        given = {
            "mode": given.get("mode", "nearest"),
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
    kinds = {"roi": TensorProto.FLOAT, "scales": TensorProto.FLOAT, "sizes": TensorProto.INT64}
    feeds: dict[str, Array] = {"x": np.eye(old, dtype=np.float32)}
    if roi is not None:
        feeds["roi"] = np.array([0, roi[0], 1, roi[1]], np.float32)
    if scale is not None:
        feeds["scales"] = np.array([1, scale], np.float32)
    else:
        feeds["sizes"] = np.array([old, size], np.int64)
    names = ["x", *[name if name in feeds else "" for name in kinds]]
    resize = helper.make_node("Resize", names, ["y"])
    resize.attribute.extend(helper.make_attribute(*each) for each in given.items())
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None])]
    inputs += [
        helper.make_tensor_value_info(name, kind, [None])
        for name, kind in kinds.items()
        if name in feeds
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])]
    model = helper.make_model(
        helper.make_graph([resize], "resize", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 19)],
    )
    try:
        run = cast("Callable[..., list[Array]]", ReferenceEvaluator(model).run)  # pyright: ignore[reportUnknownMemberType] - it leaves its results open
        with np.errstate(all="ignore"):
            (built,) = run(None, feeds)
    except Exception as error:  # noqa: BLE001  its reference raises what NumPy raises
        raise UnsupportedNodeError(f"it cannot be resized: {str(error)[:100]}") from None
    return np.asarray(built).T


OPS: Mapping[str, Entry] = {
    "MaxPool": _max_pool, "AveragePool": _average_pool, "LpPool": _lp_pool, "Resize": _resize,
    "Upsample": _resize,
}  # fmt: skip
"""The translation of each op."""
