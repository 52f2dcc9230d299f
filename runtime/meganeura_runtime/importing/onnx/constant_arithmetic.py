"""Functions of single elements of constants and of sizes: arithmetic, comparisons, casts."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.symbolic.assumptions import Compare, Operator
from meganeura_dsl.symbolic.size import Dim
from meganeura_runtime.importing.onnx.constant_folds import LARGEST, Fold, are_sizes, objects
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, plain


def _bounded(arrays: Sequence[Array]) -> None:
    if prod(np.broadcast_shapes(*(each.shape for each in arrays))) > LARGEST:
        raise ValueError("the result is too large")


def _require_whole(arrays: Sequence[Array]) -> None:
    if are_sizes(*arrays) and any(each.dtype.kind == "f" for each in arrays):
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
    if not are_sizes(a, b):
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
    if are_sizes(a, b) and node.attribute("fmod", 0):
        raise TypeError("the remainder of a size has the sign of the dividend")
    return np.fmod(a, b) if node.attribute("fmod", 0) else a % b


def _power(node: Node, arrays: list[Array]) -> Array | None:
    _bounded(arrays)
    a, b = arrays
    if are_sizes(a, b):
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
        if not are_sizes(*arrays):
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
            if not are_sizes(total, each):
                total = function(total, each)
                continue
            a, b = np.broadcast_arrays(total, each)
            chosen = [
                left if _decided(relation, node, left, right) else right
                for left, right in zip(a.reshape(-1), b.reshape(-1), strict=True)
            ]
            total = objects(chosen, a.shape)
        return total

    return fold


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


def _numeric(function: Callable[[Any], Any]) -> Fold:
    def fold(node: Node, arrays: list[Array]) -> Array | None:
        (array,) = arrays
        return None if array.dtype == object else np.asarray(function(array), array.dtype)

    return fold


ARITHMETIC: Mapping[str, Fold] = {
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
}
"""The functions of single elements, by their op."""
