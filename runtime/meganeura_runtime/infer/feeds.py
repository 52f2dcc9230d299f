"""Tensors of any stored type converted to those of a graph, each value checked first."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.io.data.data_problems import DataType
from meganeura_runtime.io.data.index_bounds import check_ids
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, read_verified, stored_array


def first_counter(seed: int) -> Array:
    """Returns the random counter of the first run of a seed."""
    return np.array([seed, 0], np.uint32)


def feeds(
    bounds: Mapping[str, Bound],
    declared: Mapping[str, TensorType],
    tensors: Mapping[str, StoredTensor],
) -> dict[str, Array]:
    """The values of all inputs in their declared types, indices below their bounds.

    Raises `ProblemError`.
    """
    fed: dict[str, Array] = {}
    for name, type_ in declared.items():
        tensor = tensors[name]
        if tensor.is_float and not type_.dtype.is_float:
            raise ProblemError(DataType(None, tensor.file, name, tensor.stored, type_.dtype.value))
        if name in bounds:
            check_ids(tensor, bounds[name])
        fed[name] = read_verified(tensor, type_.dtype)
    return fed


def as_tensors(arrays: Mapping[str, Array]) -> dict[str, StoredTensor]:
    """Arrays of Python as tensors of files; raises `ValueError` for a type no file has."""
    return {name: stored_array(Path(name), name, array) for name, array in arrays.items()}
