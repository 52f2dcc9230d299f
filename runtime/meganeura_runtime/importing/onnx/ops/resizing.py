"""Images and other tensors resized: `Resize` and `Upsample`."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

LARGEST_AXIS = 4096
"""The largest axis that is resized by a matrix."""


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


OPS: Mapping[str, Entry] = {"Resize": _resize, "Upsample": _resize}
"""The translation of each op."""
