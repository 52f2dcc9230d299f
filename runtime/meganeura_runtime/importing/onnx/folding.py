"""Values known before any data: constants, sizes, and results of them alone.

`Shape -> Gather -> Concat -> Reshape` and its like become arithmetic on sizes. An op that could
make much of little, as `Expand` does of numbers, is computed up to a bound.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import product
from meganeura_runtime.importing.onnx.constant_arithmetic import ARITHMETIC
from meganeura_runtime.importing.onnx.constant_folds import LARGEST, Fold
from meganeura_runtime.importing.onnx.constant_movement import MOVEMENT
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import (
    ARRAYS,
    Known,
    Node,
    Value,
    element_of,
    known_sizes,
    settled,
    without_elements,
)

LARGEST_NUMBERS = 16
"""Elements of an initializer of floats that may be part of a computation of sizes."""
MOST_SYMBOLS = 4096
"""Elements of an array of sizes."""


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
    fold, given = ARITHMETIC.get(node.op), [each for each in node.inputs if each is not None]
    if fold is None:
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

KEEP = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Slice", "Split")
"""Ops that make nothing larger, whatever the size of a constant."""

FOLDS: Mapping[str, Fold] = {**ARITHMETIC, **MOVEMENT}
