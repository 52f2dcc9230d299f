"""Three declared parameters, their values, and files of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.io.weights import STRICT, Allowed, WeightsMismatch, compare


@dataclass(frozen=True)
class Declared:
    name: str
    type: TensorType
    stored: str


PARAMETERS = (
    Declared("fc.weight", TensorType(DType.F32, (2, 3)), "f32"),
    Declared("fc.bias", TensorType(DType.F32, (2,)), "f32"),
    Declared("bn.num_batches_tracked", TensorType(DType.I32, ()), "i64"),
)


def read_weights(
    path: Path, parameters: Sequence[Declared], allowed: Allowed = STRICT
) -> dict[str, Array]:
    return compare([path], parameters, allowed).read()


def values() -> dict[str, Array]:
    return {
        "fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fc.bias": np.array([1, 2], np.float32),
        "bn.num_batches_tracked": np.array(5, np.int64),
    }


def saved(folder: Path, changes: Mapping[str, Array | None]) -> Path:
    """A file of `values` with some tensors changed, added or, for None, left out."""
    tensors = {**values(), **changes}
    path = folder / "weights.safetensors"
    save_file({name: each for name, each in tensors.items() if each is not None}, path)
    return path


def mismatch(path: Path) -> WeightsMismatch:
    with pytest.raises(ProblemError) as caught:
        read_weights(path, PARAMETERS)
    problem = caught.value.problem
    assert isinstance(problem, WeightsMismatch)
    return problem
