"""Ops of constants and of sizes that move elements, and reductions of them."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.symbolic.size import Size, product
from meganeura_runtime.importing.onnx.constant_folds import LARGEST, Fold, are_sizes, objects
from meganeura_runtime.importing.onnx.node import Node, plain


def _gather(node: Node, arrays: list[Array]) -> Array:
    table, ids = arrays
    if table.size * ids.size > LARGEST * 16:
        raise ValueError("the result is too large")
    return np.take(table, ids.astype(np.int64), axis=node.axis(0))


def _concat(node: Node, arrays: list[Array]) -> Array:
    axis = node.axis(0)
    return np.concatenate(arrays, axis=axis)


def _reshape(node: Node, arrays: list[Array]) -> Array | None:
    array, shape = arrays
    if shape.dtype == object:
        return None
    zero = node.attribute("allowzero", 0)
    sizes = [
        array.shape[axis] if size == 0 and not zero else size
        for axis, size in enumerate(shape.tolist())
    ]
    return array.reshape(sizes)


def _axes_of(node: Node, arrays: list[Array]) -> list[int] | None:
    found = node.attributes.get("axes")
    if found is None and len(arrays) > 1:
        found = [int(each) for each in arrays[1].reshape(-1)]
    return found


def _unsqueeze(node: Node, arrays: list[Array]) -> Array:
    axes = _axes_of(node, arrays) or []
    return np.expand_dims(arrays[0], tuple(axes))


def _squeeze(node: Node, arrays: list[Array]) -> Array:
    axes = _axes_of(node, arrays)
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


def _slice(node: Node, arrays: list[Array]) -> Array | None:
    if "starts" in node.attributes:
        starts, ends = node.attributes["starts"], node.attributes["ends"]
        axes, steps = node.attributes.get("axes"), None
    elif are_sizes(*arrays[1:]):
        return None
    else:
        starts, ends, axes, steps = (_row(node, index) for index in range(1, 5))
    if starts is None or ends is None:
        raise ValueError("it has no bounds")
    axes = range(len(starts)) if axes is None else axes
    steps = steps or [1] * len(starts)
    slices = [slice(None)] * arrays[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        slices[axis] = slice(start, end, step)
    return arrays[0][tuple(slices)]


def _row(node: Node, index: int) -> list[int] | None:
    return node.integers(index, "bounds") if node.has(index) else None


def _split(node: Node, arrays: list[Array]) -> list[Array] | None:
    axis = node.axis(0)
    sizes = node.attributes.get("split")
    if sizes is None and len(arrays) > 1 and arrays[1].dtype != object:
        sizes = arrays[1].tolist()
    if sizes is None:
        return None
    return list(np.split(arrays[0], np.cumsum(sizes)[:-1], axis))


def _transpose(node: Node, arrays: list[Array]) -> Array:
    return np.transpose(arrays[0], node.attributes.get("perm"))


def _range(node: Node, arrays: list[Array]) -> Array | None:
    if are_sizes(*arrays):
        return None
    start, limit, step = (each.reshape(-1)[0] for each in arrays)
    if step == 0 or abs((limit - start) / step) > LARGEST:
        raise ValueError("the range is too long")
    arange: Callable[..., Array] = np.arange
    return arange(start, limit, step).astype(arrays[0].dtype)


def _expand(node: Node, arrays: list[Array]) -> Array | None:
    array, shape = arrays
    if shape.dtype == object:
        return None
    wanted = np.broadcast_shapes(array.shape, tuple(int(each) for each in shape.tolist()))
    return np.broadcast_to(array, wanted).copy() if prod(wanted) <= LARGEST else None


def _tile(node: Node, arrays: list[Array]) -> Array | None:
    array, repeats = arrays
    if repeats.dtype == object or array.size * prod(map(int, repeats.tolist())) > LARGEST:
        return None
    return np.tile(array, repeats.tolist())


def _reduced(node: Node, arrays: list[Array]) -> tuple[int, ...] | None:
    """The axes of a reduction; None for all, as none are unless the node says otherwise."""
    axes = _axes_of(node, arrays)
    if axes:
        return tuple(axes)
    return () if node.attribute("noop_with_empty_axes", 0) else None


def _product(node: Node, arrays: list[Array]) -> Array | None:
    axes, keep = _reduced(node, arrays), bool(node.attribute("keepdims", 1))
    if axes is not None or arrays[0].dtype != object:
        return np.asarray(np.prod(arrays[0], axis=axes, keepdims=keep), arrays[0].dtype)
    total: Size = product([plain(each) for each in arrays[0].reshape(-1)])
    return objects([total], (1,) * arrays[0].ndim if keep else ())


def _sum(node: Node, arrays: list[Array]) -> Array:
    axes, keep = _reduced(node, arrays), bool(node.attribute("keepdims", 1))
    return np.asarray(np.sum(arrays[0], axis=axes, keepdims=keep), arrays[0].dtype)


MOVEMENT: Mapping[str, Fold] = {
    "Gather": _gather,
    "Concat": _concat,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
    "Range": _range,
    "Expand": _expand,
    "Tile": _tile,
    "ReduceProd": _product,
    "ReduceSum": _sum,
}
"""The ops that are no functions of single elements."""
