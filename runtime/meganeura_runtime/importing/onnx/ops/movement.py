"""Ops that move elements: shapes, slices, concatenations, gathers."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.size import Dim, Size, product
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Part, Value, without_elements
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

LONG = 1 << 16
"""An end of a slice beyond this, of an axis whose size is open, is taken to be behind it."""
FAR = 1 << 31
"""Ends of slices beyond this mean all there is."""


def _reshape(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    wanted = node.sizes(1, "sizes") if len(node.inputs) > 1 else node.attribute("shape", [])
    return [node.build.reshape(x, target(x.shape, wanted, node.attribute("allowzero", 0)))]


def target(shape: Shape, wanted: "list[Size]", allow_zero: int) -> Shape:
    """The shape that `Reshape` means: 0 copies, -1 is what is left."""
    sizes: list[Size] = []
    for axis, size in enumerate(wanted):
        is_copied = size == 0 and not allow_zero
        if is_copied and axis >= len(shape):
            raise UnsupportedNodeError("it copies a size that is not there")
        sizes.append(shape[axis] if is_copied else size)
    if -1 in sizes:
        at = sizes.index(-1)
        known = product(sizes[:at] + sizes[at + 1 :])
        if known == 0:
            raise UnsupportedNodeError("its size cannot be inferred")
        sizes[at] = product(shape) // known
    if any(isinstance(size, int) and size < 1 for size in sizes):
        raise UnsupportedNodeError("its result has no elements")
    return tuple(sizes)


def _flatten(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    axis = node.attribute("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise UnsupportedNodeError(f"there is no axis {axis}")
    at = axis + x.rank if axis < 0 else axis
    return [node.build.reshape(x, (product(x.shape[:at]), product(x.shape[at:])))]


def _unsqueeze(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    found = node.attributes.get("axes")
    axes = node.integers(1, "axes") if found is None else list(found)
    rank = x.rank + len(axes)
    positions = {node.checked_axis(axis, rank) for axis in axes}
    if len(positions) != len(axes):
        raise UnsupportedNodeError("an axis is named twice")
    sizes = iter(x.shape)
    return [
        node.build.reshape(x, tuple(1 if at in positions else next(sizes) for at in range(rank)))
    ]


def _squeeze(node: Node) -> list[Value | None]:
    x, axes = node.tensor(0), node.axes(1, 13)
    if axes is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
    for axis in axes:
        node.build.need("==", x.shape[axis], 1, "only axes of size 1 are dropped")
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    return [node.build.reshape(x, shape)]


def _transpose(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    order = node.attribute("perm", None) or list(range(x.rank))[::-1]
    if sorted(order) != list(range(x.rank)):
        raise UnsupportedNodeError("its `perm` is no order of the axes")
    return [node.build.transpose(x, order)]


def _expand(node: Node) -> list[Value | None]:
    x, build = node.tensor(0), node.build
    shape = build.broadcast_shape([x.shape, tuple(node.sizes(1, "sizes"))])
    return [build.expand(x, shape)]


def _tile(node: Node) -> list[Value | None]:
    x, build = node.tensor(0), node.build
    for axis, times in enumerate(node.sizes(1, "repeats")):
        if times == 1:
            continue
        if x.shape[axis] == 1:
            shape = (*x.shape[:axis], times, *x.shape[axis + 1 :])
            x = build.expand(x, shape)
            continue
        spread = (*x.shape[:axis], times, *x.shape[axis:])
        repeated = build.expand(build.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), spread)
        x = build.reshape(repeated, (*x.shape[:axis], times * x.shape[axis], *x.shape[axis + 1 :]))
    return [x]


def _concat(node: Node) -> list[Value | None]:
    places = [index for index, each in enumerate(node.inputs) if not _is_empty(each)]
    if not node.inputs:
        raise UnsupportedNodeError("it has no operands")
    parts = [node.tensor(index) for index in places or range(len(node.inputs))]
    return [node.build.concat(parts, node.axis(1, parts[0].rank))]


def _is_empty(value: Value | None) -> bool:
    """True if a value has no elements, which a concatenation is without."""
    return isinstance(value, Known) and value.array.size == 0


def _split(node: Node) -> list[Value | None]:
    x, build = node.tensor(0), node.build
    axis = node.axis(0)
    sizes = node.attributes.get("split")
    if sizes is None and node.has(1):
        sizes = node.sizes(1, "sizes")
    if sizes is None:
        count = node.attribute("num_outputs", len(node.outputs))
        size = x.shape[axis]
        if count != len(node.outputs):
            raise UnsupportedNodeError(f"it has {len(node.outputs)} results and {count} parts")
        each = (size + count - 1) // count
        sizes = [each] * (count - 1)
        sizes.append(size - each * (count - 1))
    return [*parts_along(build, x, axis, sizes)]


def parts_along(build: Builder, x: Tensor, axis: int, sizes: Sequence[Size]) -> list[Tensor]:
    """A tensor cut into parts of these sizes, which have to be all of it."""
    start: Size = 0
    parts: list[Tensor] = []
    for size in sizes:
        parts.append(build.between(x, axis, start, start + size))
        start = start + size
    build.need("==", start, x.shape[axis], "the parts are not the whole")
    return parts


def _slice(node: Node) -> list[Value | None]:
    x = node.tensor(0)
    if "starts" in node.attributes:
        starts, ends = list(node.attributes["starts"]), list(node.attributes["ends"])
        axes, steps = node.attributes.get("axes"), [1] * len(starts)
    else:
        starts, ends = node.sizes(1, "starts"), node.sizes(2, "ends")
        axes = node.integers(3, "axes") if node.has(3) else None
        steps = node.integers(4, "steps") if node.has(4) else [1] * len(starts)
    axes = range(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = node.checked_axis(axis, x.rank)
        if isinstance(start, int) and start == end and step > 0:
            return [without_elements(x.dtype, (*x.shape[:at], 0, *x.shape[at + 1 :]))]
        x = _part(node, x, at, start, end, step)
    return [x]


def _part(node: Node, x: Tensor, axis: int, start: Size, end: Size, step: int) -> Tensor:
    size = x.shape[axis]
    if step == 0:
        raise UnsupportedNodeError("its step is 0")
    if step > 0:
        first, last = _clamped(node, start, size), _clamped(node, end, size)
        count = (last - first + step - 1) // step
    else:
        first = _clamped(node, start, size, highest=-1)
        last = (
            -1
            if isinstance(end, int) and end < -FAR
            else _clamped(node, end, size, lowest=-1, highest=-1)
        )
        count = (first - last - step - 1) // -step
    if isinstance(count, int) and count < 1:
        raise UnsupportedNodeError("a slice has no elements")
    return node.build.strided(x, axis, first, count, step)


def _clamped(node: Node, at: Size, size: Size, lowest: int = 0, highest: int = 0) -> Size:
    """A position counted from the front, within `lowest` and `size + highest`."""
    build = node.build
    if isinstance(at, int):
        if at >= FAR - 1:
            return size + highest
        if at < 0:
            if isinstance(size, int):
                return max(at + size, lowest)
            if at < -FAR:
                return lowest
            build.need(">=", size, -at, "a slice begins before its axis")
            return size + at
        if isinstance(size, int):
            return min(at, size + highest)
    if at == size:
        return size + highest
    if isinstance(at, int) and at > LONG:
        build.need(">=", at, size, "an axis is longer than a slice of all of it")
        return size + highest
    build.need(">=", size, at, "a slice ends behind its axis")
    return at


def _gather(node: Node) -> list[Value | None]:
    build, axis = node.build, node.axis(0)
    table, ids = node.value(0), node.value(1)
    if not ids.dtype.is_integer:
        raise UnsupportedNodeError("its indices are no whole numbers")
    if isinstance(ids, Known) and ids.array.size == 1:
        x, at = node.tensor(0), ids.numbers[0]
        if isinstance(at, int) and at < 0:
            at = x.shape[axis] + at
        build.need(">=", x.shape[axis] - 1, at, "an index is outside")
        if ids.rank == 0:
            return [build.entry(x, axis, at)]
        part = build.between(x, axis, at, at + 1)
        return [build.reshape(part, (*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :]))]
    if isinstance(table, Known) and axis == 0 and table.rank == 2 and table.dtype is DType.F32:
        x = _positions(node.tensor(1))
        layer = _embedding(node, table, x) if table.name.endswith(".weight") else None
        if layer is not None:
            return [layer]
    x = node.tensor(0)
    return [build.gather(x, _positions(_ids(node, 1, x.shape[axis])), axis)]


def _embedding(node: Node, table: Known, ids: Tensor) -> Tensor | None:
    words, d = table.array.shape
    if not node.is_own(table):
        return None
    config = [(f"{words}, {d}",)]
    return node.layer(
        "embedding", ids, config, {"weight": Part(table)}, "embedding", (*ids.shape, d), DType.F32
    )


def _ids(node: Node, index: int, size: Size) -> Tensor:
    """Positions, those that are constant counted from the front."""
    found = node.value(index)
    if not found.dtype.is_integer:
        raise UnsupportedNodeError("its indices are no whole numbers")
    if not isinstance(found, Known) or found.is_symbolic:
        return node.tensor(index)
    if not isinstance(size, int):
        ids = node.tensor(index)
        return counted(node.build, ids, size) if _may_be_negative(found) else ids
    array = np.where(found.array < 0, found.array + size, found.array)
    if array.min() < 0 or array.max() >= size:
        raise UnsupportedNodeError("an index is outside")
    return node.written(Known(array, DType.I32, found.name if (array == found.array).all() else ""))


def _positions(ids: Tensor) -> Tensor:
    """Positions, which are counted from the front: others are refused when the model runs."""
    if not ids.dtype.is_integer:
        raise UnsupportedNodeError("its indices are no whole numbers")
    return ids


def _may_be_negative(ids: Value) -> bool:
    return not isinstance(ids, Known) or ids.is_symbolic or bool((ids.array < 0).any())


def counted(build: Builder, ids: Tensor, size: Size) -> Tensor:
    """Positions along an axis, those that are negative counted from its end."""
    return build.where(build.binary("<", ids, 0), build.binary("+", ids, size), ids)


def _gather_elements(node: Node) -> list[Value | None]:
    """Translates a gather along one axis, batched over all others."""
    build, x = node.build, node.tensor(0)
    axis = node.axis(0)
    ids = _ids(node, 1, x.shape[axis])
    order = [each for each in range(x.rank) if each != axis]
    for each in order:
        if not build.same(x.shape[each], ids.shape[each]):
            x = build.between(x, each, 0, ids.shape[each])
    last = [*order, axis]
    moved = build.gather(
        build.transpose(x, last), build.transpose(ids, last), x.rank - 1, x.rank - 1
    )
    return [build.transpose(moved, [last.index(each) for each in range(x.rank)])]


def _gather_nd(node: Node) -> list[Value | None]:
    build, x, ids = node.build, node.tensor(0), node.tensor(1)
    batch: int = node.attribute("batch_dims", 0)
    depth = ids.shape[-1]
    if not isinstance(depth, int) or not 1 <= depth <= x.rank - batch:
        raise UnsupportedNodeError("the length of an index is not known")
    parts = [build.entry(ids, ids.rank - 1, level) for level in range(depth)]
    # One index alone that is fed is refused where it is negative; of several it would not be seen.
    if _may_be_negative(node.value(1)) and (depth > 1 or isinstance(node.value(1), Known)):
        sizes = x.shape[batch : batch + depth]
        parts = [counted(build, each, size) for each, size in zip(parts, sizes, strict=True)]
    position, size = parts[0], x.shape[batch]
    for level in range(1, depth):
        step = x.shape[batch + level]
        position = build.binary("+", build.binary("*", position, step), parts[level])
        size = size * step
    rest = x.shape[batch + depth :]
    table = build.reshape(x, (*x.shape[:batch], size, *rest))
    return [build.gather(table, position, batch, batch)]


def _pad(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    mode = node.attribute("mode", "constant")
    amounts = node.attributes.get("pads")
    if amounts is None:
        amounts = node.sizes(1, "amounts")
    value = node.attributes.get("value", None)
    if value is None:
        value = node.number(2, 0.0) if len(node.inputs) > 2 else 0.0
    axes = (
        [node.checked_axis(each, x.rank) for each in node.integers(3, "axes")]
        if node.has(3)
        else list(range(x.rank))
    )
    if len(amounts) != 2 * len(axes):
        raise UnsupportedNodeError("it has not two amounts for each axis")
    for index, axis in enumerate(axes):
        before, after = amounts[index], amounts[index + len(axes)]
        if mode == "constant":
            x = build.pad(x, axis, before, after, value)
        else:
            x = _mirrored(node, x, axis, before, after, mode)
    return [x]


def _mirrored(node: Node, x: Tensor, axis: int, before: Size, after: Size, mode: str) -> Tensor:
    build, size = node.build, x.shape[axis]
    if isinstance(before, int) and before < 0:
        x, before, size = build.between(x, axis, -before, size), 0, size + before
    if isinstance(after, int) and after < 0:
        x, after = build.between(x, axis, 0, size + after), 0
    parts: list[Tensor] = []
    for amount, is_before in ((before, True), (after, False)):
        if amount == 0:
            continue
        match mode:
            case "edge":
                at: Size = 0 if is_before else size - 1
                part = build.between(x, axis, at, at + 1)
                shape = (*x.shape[:axis], amount, *x.shape[axis + 1 :])
                part = build.expand(part, shape)
            case "reflect":
                start = 1 if is_before else size - 1 - amount
                part = build.between(x, axis, start, start + amount)
                part = build.call("reverse", part, (str(axis),), shape=part.shape)
            case "wrap":
                start = size - amount if is_before else 0
                part = build.between(x, axis, start, start + amount)
            case _:
                raise UnsupportedNodeError(f"the mode `{mode[:40]}` is not read")
        parts.append(part)
    ends = iter(parts)
    first = [next(ends)] if before != 0 else []
    return build.concat([*first, x, *ends], axis)


def _depth_to_space(node: Node) -> list[Value | None]:
    build, x, b = node.build, node.tensor(0), node.attribute("blocksize", 0)
    n, c, h, w = _image(x)
    if b < 1:
        raise UnsupportedNodeError("its `blocksize` is below 1")
    inner = c // (b * b)
    if node.attribute("mode", "DCR") == "DCR":
        x = build.transpose(build.reshape(x, (n, b, b, inner, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = build.transpose(build.reshape(x, (n, inner, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return [build.reshape(x, (n, inner, h * b, w * b))]


def _space_to_depth(node: Node) -> list[Value | None]:
    build, x, b = node.build, node.tensor(0), node.attribute("blocksize", 0)
    n, c, h, w = _image(x)
    if b < 1:
        raise UnsupportedNodeError("its `blocksize` is below 1")
    x = build.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return [build.reshape(build.transpose(x, order), (n, c * b * b, h // b, w // b))]


def _image(x: Tensor) -> tuple[Size, Size, Size, Size]:
    if x.rank != 4:
        raise UnsupportedNodeError("it is no image of four axes")
    n, c, h, w = x.shape
    return n, c, h, w


def _range(node: Node) -> list[Value | None]:
    build = node.build
    start, limit, step = (_bound(node, index) for index in range(3))
    if not isinstance(step, int):
        raise UnsupportedNodeError("its step depends on a size")
    if step < 1:
        raise UnsupportedNodeError("its step is below 1")
    built = build.iota((limit - start + step - 1) // step)
    if step != 1:
        built = build.binary("*", built, step)
    built = built if start == 0 else build.binary("+", built, start)
    return [build.cast(built, node.value(0).dtype)]


def _bound(node: Node, index: int) -> Size:
    """A bound of a range: a whole number or a size, which may be written as a float."""
    found = node.value(index)
    if isinstance(found, Tensor):
        size = node.build.sizes.get(found.id)
        if size is None:
            raise UnsupportedNodeError("its bounds depend on data")
        return size
    (number,) = node.numbers(index, "bounds")
    if isinstance(number, float) and not number.is_integer():
        raise UnsupportedNodeError(f"its bound {number} is no whole number")
    return int(number) if isinstance(number, float) else number


def _one_hot(node: Node) -> list[Value | None]:
    build, ids = node.build, node.tensor(0)
    (depth,) = node.numbers(1, "depth")
    axis = node.axis(-1, ids.rank + 1)
    depth = int(depth) if not isinstance(depth, Dim) else depth
    ids = counted(build, build.cast(ids, DType.I32), depth)
    shape = (*ids.shape[:axis], depth, *ids.shape[axis:])
    column = build.reshape(ids, (*ids.shape[:axis], 1, *ids.shape[axis:]))
    positions = build.reshape(build.iota(depth), (depth, *(1,) * (ids.rank - axis)))
    same = build.binary("==", build.expand(column, shape), build.expand(positions, shape))
    values = node.value(2)
    if isinstance(values, Known) and values.array.size == 2 and not values.is_symbolic:
        off, on = values.array.reshape(-1).tolist()
        return [build.cast(build.where(same, float(on), float(off)), values.dtype)]
    pair = node.tensor(2)
    return [build.where(same, build.entry(pair, 0, 1), build.entry(pair, 0, 0))]


def _trilu(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    k = node.integers(1, "diagonal")[0] if node.has(1) else 0
    k = max(-FAR, min(k, FAR))
    if x.rank < 2:
        raise UnsupportedNodeError("it is of a matrix")
    kept = build.triangle(x.shape[-2:], ">=" if node.attribute("upper", 1) else "<=", k)
    kept = build.expand(kept, x.shape)
    if x.dtype is DType.BOOL:
        return [build.binary("and", kept, x)]
    return [build.where(kept, x, 0)]


def _eye(node: Node) -> list[Value | None]:
    build = node.build
    same = build.triangle(node.value(0).shape, "==", node.attribute("k", 0))
    to = node.attribute("dtype", 1)
    if to not in (1, 6, 7, 10):
        raise UnsupportedNodeError("the language has no such element type")
    return [build.cast(same, {1: DType.F32, 10: DType.F16}.get(to, DType.I32))]


def _center_crop_pad(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    axes = node.attributes.get("axes") or list(range(x.rank))
    for axis, wanted in zip(axes, node.integers(1, "sizes"), strict=True):
        at = node.checked_axis(axis, x.rank)
        size = x.shape[at]
        if not isinstance(size, int):
            raise UnsupportedNodeError("it crops or pads what is a symbol")
        if wanted <= size:
            start = (size - wanted) // 2
            x = build.between(x, at, start, start + wanted)
        else:
            before = (wanted - size) // 2
            x = build.pad(x, at, before, wanted - size - before)
    return [x]


OPS: Mapping[str, Entry] = {
    "Reshape": _reshape, "Flatten": _flatten, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze,
    "Transpose": _transpose, "Expand": _expand, "Tile": _tile, "Concat": _concat, "Split": _split,
    "Slice": _slice, "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd,
    "Pad": _pad, "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth, "Range": _range,
    "OneHot": _one_hot, "Trilu": _trilu, "EyeLike": _eye, "CenterCropPad": _center_crop_pad,
}  # fmt: skip
"""The translation of each op."""
