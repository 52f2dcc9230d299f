"""Values known before any data: constants, sizes, and results of them alone.

`Shape -> Gather -> Concat -> Reshape` and its like become arithmetic on sizes. An op that could
make much of little, as `Expand` does of numbers, is computed up to a bound.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Compare, Operator
from meganeura_dsl.symbolic.size import Dim, Size, product
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import (
    ARRAYS,
    Known,
    Node,
    Value,
    element_of,
    known_sizes,
    plain,
    settled,
    without_elements,
)

LARGEST = 1 << 22
"""Elements of a constant that is computed of smaller ones."""
LARGEST_NUMBERS = 16
"""Elements of an initializer of floats that may be part of a computation of sizes."""
MOST_SYMBOLS = 4096
"""Elements of an array of sizes."""

Fold = Callable[[Node, list[Array]], "Array | list[Array] | None"]


def folded(node: Node) -> list[Value | None] | None:
    """The results of a node that needs no data, None if it does, or if it is not computed."""
    if any(isinstance(each, Known) and each.open_shape is not None for each in node.inputs):
        return _shape(node) if node.op == "Shape" else _without_elements(node)
    of_shape = SHAPES.get(node.op)
    if of_shape is not None:
        return of_shape(node)
    if not all(each is None or isinstance(each, Known) for each in node.inputs):
        return None
    known = [each for each in node.inputs if isinstance(each, Known)]
    fold = FOLDS.get(node.op)
    if fold is None or (not known and node.op != "Constant"):
        return None
    if any(each.is_symbolic and each.array.size > MOST_SYMBOLS for each in known):
        return None
    if sum(each.array.size for each in known) > LARGEST and node.op not in KEEP:
        return None
    least = 1 if node.op in MOVED else LARGEST_NUMBERS
    if node.op not in ("Identity", "Cast") and any(_is_weight(each, least) for each in known):
        return _turned(node, known)
    try:
        with np.errstate(all="ignore"):
            built = fold(node, [each.array for each in known])
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise UnsupportedNodeError(f"its constants do not fit: {str(error)[:120]}") from None
    if built is None:
        return None
    arrays = built if isinstance(built, list) else [built]
    return [_as_known(node, known, array) for array in arrays]


MOVED = frozenset({"Reshape", "Unsqueeze", "Transpose", "Expand"})
"""Ops of sizes that only move whole numbers."""


def _is_weight(known: Known, least: int) -> bool:
    """True if numbers are weights that keep their name, and not part of a computation of sizes."""
    is_large = (known.rank > 1 or known.array.size > least) and known.array.size > 1
    return bool(known.name) and known.dtype.is_float and (is_large or known.is_parameter)


def _turned(node: Node, known: Sequence[Known]) -> list[Value | None] | None:
    """The transpose of a matrix of weights, which remembers what it is."""
    if node.op != "Transpose" or known[0].rank != 2 or node.attribute("perm", [1, 0]) != [1, 0]:
        return None
    (weight,) = known
    return [weight.turned]


def _as_known(node: Node, known: Sequence[Known], array: Array) -> Known:
    array = settled(np.asarray(array))
    dtype = DType.I32 if array.dtype == object else element_of(array.dtype)
    if node.op == "Identity":
        return known[0]
    name = known[0].name if node.op == "Cast" else ""
    same = bool(name) and known[0].dtype is dtype
    return Known(array, dtype, name if same else "")


# --- sizes of tensors ----------------------------------------------------------------------------


def _shape(node: Node) -> list[Value | None]:
    shape = list(node.value(0).shape)
    start, end = node.attribute("start", 0), node.attribute("end", len(shape))
    return [known_sizes(shape[start:end])]


def _size(node: Node) -> list[Value | None]:
    return [known_sizes(product(node.value(0).shape))]


def _constant(node: Node) -> list[Value | None] | None:
    found = node.attributes
    if "value" in found:
        value = found["value"]
        return [value] if isinstance(value, Known) else None
    for name, of in CONSTANTS.items():
        if name in found:
            array = np.array(found[name], of)
            return [Known(array, element_of(array.dtype))]
    raise UnsupportedNodeError("it is no tensor of numbers")


CONSTANTS: Mapping[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def _constant_of_shape(node: Node) -> list[Value | None] | None:
    if node.has(0) and not isinstance(node.value(0), Known):
        raise UnsupportedNodeError("its shape depends on data")
    sizes = node.sizes(0, "sizes")
    value = node.attribute("value", None)
    array = value.array if isinstance(value, Known) else np.zeros(1, np.float32)
    dtype = value.dtype if isinstance(value, Known) else DType.F32
    whole = [size for size in sizes if isinstance(size, int)]
    if array.size != 1 or any(size < 0 for size in whole):
        raise UnsupportedNodeError("its shape or its value is impossible")
    number = array.reshape(-1)[0]
    if 0 in whole:
        return [without_elements(dtype, tuple(sizes))]
    if len(whole) == len(sizes) and prod(whole) <= LARGEST:
        return [Known(np.full(whole, number, array.dtype), dtype)]
    return [node.build.filled(number.item(), dtype, tuple(sizes))]


def _without_elements(node: Node) -> list[Value | None] | None:
    """The result of a function of elements of which there are none; None for other ops."""
    fold, given = FOLDS.get(node.op), [each for each in node.inputs if each is not None]
    if fold is None or node.op in MOVES:
        return None
    one_each = [np.zeros((1,) * each.rank, ARRAYS[each.dtype]) for each in given]
    found = fold(node, one_each)
    if not isinstance(found, np.ndarray):
        return None
    shape = node.build.broadcast_shape([each.shape for each in given])
    return [without_elements(element_of(found.dtype), shape)]


SHAPES: Mapping[str, Callable[[Node], list[Value | None] | None]] = {
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
}


# --- arithmetic ----------------------------------------------------------------------------------


def _are_sizes(*arrays: Array) -> bool:
    """True if some of these hold symbols."""
    return any(each.dtype == object for each in arrays)


def _bounded(arrays: Sequence[Array]) -> None:
    if prod(np.broadcast_shapes(*(each.shape for each in arrays))) > LARGEST:
        raise ValueError("the result is too large")


def _require_whole(arrays: Sequence[Array]) -> None:
    if _are_sizes(*arrays) and any(each.dtype.kind == "f" for each in arrays):
        raise TypeError("a size meets a number that is not whole")


def _pair(function: Callable[[Any, Any], Any]) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array:
        _bounded(arrays)
        _require_whole(arrays)
        return np.asarray(function(*arrays))

    return fold


def _several(function: Callable[[Any, Any], Any]) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array:
        _bounded(arrays)
        total = arrays[0]
        for each in arrays[1:]:
            total = function(total, each)
        return np.asarray(total)

    return fold


def _divide(node: Node, arrays: list[Array]) -> Array:
    """Whole numbers are truncated, which is the floor where neither is negative."""
    _bounded(arrays)
    a, b = arrays
    if not _are_sizes(a, b):
        if a.dtype.kind == "f":
            return np.divide(a, b)
        quotient = np.abs(a) // np.abs(b)
        return (quotient * np.sign(a) * np.sign(b)).astype(a.dtype)
    _require_whole(arrays)
    for each, least in ((a, 0), (b, 1)):
        for size in dict.fromkeys(map(plain, each.reshape(-1))):
            node.build.need(">=", size, least, "a size is divided that may be negative")
    return np.asarray(a // b)


def _mod(node: Node, arrays: list[Array]) -> Array:
    _bounded(arrays)
    a, b = arrays
    if _are_sizes(a, b) and node.attribute("fmod", 0):
        raise TypeError("the remainder of a size has the sign of the dividend")
    return np.fmod(a, b) if node.attribute("fmod", 0) else a % b


def _power(node: Node, arrays: list[Array]) -> Array | None:
    _bounded(arrays)
    a, b = arrays
    if _are_sizes(a, b):
        return None
    if a.dtype.kind in "iu" and b.dtype.kind in "iu" and int(np.abs(b).max(initial=0)) > 64:
        raise ValueError("the exponent is too large")
    return np.power(a, b).astype(a.dtype)


def _decided(relation: Operator, node: Node, left: object, right: object) -> bool:
    """A relation of two numbers or sizes, which the facts decide."""
    left, right = plain(left), plain(right)
    if not isinstance(left, Dim) and not isinstance(right, Dim):
        return bool(RELATIONS[relation](left, right))
    for side in (left, right):
        if isinstance(cast("object", side), float):
            raise UnsupportedNodeError("a size is compared with a number that is not whole")
    truth = node.build.facts.truth(Compare(relation, left, right))
    if truth is None:
        raise UnsupportedNodeError(f"it depends on sizes: {Compare(relation, left, right)}")
    return truth


RELATIONS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _compare(relation: Operator) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array:
        _bounded(arrays)
        if not _are_sizes(*arrays):
            return np.asarray(RELATIONS[relation](*arrays))
        a, b = np.broadcast_arrays(*arrays)
        pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
        truths = [_decided(relation, node, *pair) for pair in pairs]
        return np.array(truths, bool).reshape(a.shape)

    return fold


def _extreme(relation: Operator, function: Callable[[Any, Any], Any]) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array:
        _bounded(arrays)
        total = arrays[0]
        for each in arrays[1:]:
            if not _are_sizes(total, each):
                total = function(total, each)
                continue
            a, b = np.broadcast_arrays(total, each)
            chosen = [
                left if _decided(relation, node, left, right) else right
                for left, right in zip(a.reshape(-1), b.reshape(-1), strict=True)
            ]
            total = _objects(chosen, a.shape)
        return total

    return fold


def _objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    array = np.empty(len(values), object)
    for index, each in enumerate(values):
        array[index] = plain(each)
    return array.reshape(shape)


def _where(node: Node, arrays: list[Array]) -> Array:
    _bounded(arrays)
    return np.where(*arrays)


def _cast(node: Node, arrays: list[Array]) -> Array | None:
    (array,) = arrays
    to = node.attribute("to", 0)
    if array.dtype == object:
        return array if to in (6, 7) else None  # a size stays a size among whole numbers
    if to not in CASTS:
        return None
    return converted(array, CASTS[to])


def converted(array: Array, to: np.dtype[Any]) -> Array:
    """Numbers in another element type; of floats without a whole number there is no rule."""
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and to.kind in "iu":
            array = np.nan_to_num(array)
        return array.astype(to)


CASTS: Mapping[int, np.dtype[Any]] = {
    1: np.dtype("f4"), 3: np.dtype("i1"), 2: np.dtype("u1"), 5: np.dtype("i2"),
    4: np.dtype("u2"), 6: np.dtype("i4"), 7: np.dtype("i8"), 9: np.dtype("bool"),
    10: np.dtype("f2"), 11: np.dtype("f8"), 12: np.dtype("u4"),
}  # fmt: skip


def _cast_like(node: Node, arrays: list[Array]) -> Array | None:
    array, like = arrays
    if array.dtype == object:
        return array if like.dtype == object or like.dtype.kind == "i" else None
    return converted(array, np.dtype(np.int64) if like.dtype == object else like.dtype)


# --- movement ------------------------------------------------------------------------------------


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
    elif _are_sizes(*arrays[1:]):
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
    if _are_sizes(*arrays):
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
    return _objects([total], (1,) * arrays[0].ndim if keep else ())


def _sum(node: Node, arrays: list[Array]) -> Array:
    axes, keep = _reduced(node, arrays), bool(node.attribute("keepdims", 1))
    return np.asarray(np.sum(arrays[0], axis=axes, keepdims=keep), arrays[0].dtype)


def _numeric(function: Callable[[Any], Any]) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array | None:
        (array,) = arrays
        return None if array.dtype == object else np.asarray(function(array), array.dtype)

    return fold


KEEP = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Slice", "Split")
"""Ops that make nothing larger, whatever the size of a constant."""

MOVES = frozenset({
    "Concat", "Expand", "Gather", "Range", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Ops that are no functions of single elements."""

FOLDS: Mapping[str, Fold] = {
    "Identity": lambda node, arrays: arrays[0],
    "Add": _pair(np.add),
    "Sub": _pair(np.subtract),
    "Mul": _pair(np.multiply),
    "Div": _divide,
    "Mod": _mod,
    "Pow": _power,
    "Neg": lambda node, arrays: -arrays[0],
    "Abs": _numeric(np.abs),
    "Sqrt": _numeric(np.sqrt),
    "Exp": _numeric(np.exp),
    "Log": _numeric(np.log),
    "Reciprocal": _numeric(np.reciprocal),
    "Relu": _numeric(lambda array: np.maximum(array, 0)),
    "Ceil": _numeric(np.ceil),
    "Floor": _numeric(np.floor),
    "Round": _numeric(np.round),
    "Sin": _numeric(np.sin),
    "Cos": _numeric(np.cos),
    "Not": _numeric(np.logical_not),
    "And": _pair(np.logical_and),
    "Or": _pair(np.logical_or),
    "Sum": _several(np.add),
    "Min": _extreme("<=", np.minimum),
    "Max": _extreme(">=", np.maximum),
    "Equal": _compare("=="),
    "Less": _compare("<"),
    "LessOrEqual": _compare("<="),
    "Greater": _compare(">"),
    "GreaterOrEqual": _compare(">="),
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
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
