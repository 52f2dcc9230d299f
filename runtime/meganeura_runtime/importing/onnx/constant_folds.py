"""The form of what computes constants of constants, its bound, and arrays of sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.node import Node, plain

LARGEST = 1 << 22
"""Elements of a constant that is computed of smaller ones."""

Fold = Callable[[Node, list[Array]], "Array | list[Array] | None"]
"""The results of a node by its constants; None of what is not computed."""


def are_sizes(*arrays: Array) -> bool:
    """True if some of these hold symbols."""
    return any(each.dtype == object for each in arrays)


def objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    """An array of this shape that holds numbers and symbols."""
    array = np.empty(len(values), object)
    for index, each in enumerate(values):
        array[index] = plain(each)
    return array.reshape(shape)
