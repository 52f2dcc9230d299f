"""Pools over windows."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Piece, Ref, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry
from meganeura_runtime.importing.onnx.ops.products import positive, window_pads

LOWEST = float(np.finfo(np.float32).min)
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


OPS: Mapping[str, Entry] = {
    "MaxPool": _max_pool, "AveragePool": _average_pool, "LpPool": _lp_pool
}  # fmt: skip
"""The translation of each op."""
