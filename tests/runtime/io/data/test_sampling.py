"""Frequencies of examples: as a tensor says, or equal for each class."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.data.data_problems import MissingTensor
from meganeura_runtime.io.data.dataset import InputSpec, match_data
from meganeura_runtime.io.data.sampling import sampling_weights
from meganeura_runtime.io.data.source_problems import WrongWeights
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor, stored_array

FILE = Path("points.npz")
PLACE = Span(Source("fit.mgn", 'balance = "y"'), 0, 7)
DEMAND = InputSpec({"x": TensorType(DType.F32, (dim("batch"), 2))}, {"batch": 2})
Tensors = dict[str, StoredTensor]


def held(name: str, values: Array) -> tuple[StoredSplit, Tensors]:
    """Five examples to train on, two held out, and a tensor beside them."""
    arrays = {"train.x": np.zeros((5, 2)), "test.x": np.zeros((2, 2)), name: values}
    tensors = {each: stored_array(FILE, each, array) for each, array in arrays.items()}
    split = match_data(tensors, DEMAND, FILE).train
    assert isinstance(split, StoredSplit)
    return split, tensors


@pytest.mark.parametrize("name", ["w", "train.w"])
def test_weights_are_what_a_tensor_says(name: str) -> None:
    split, tensors = held(name, np.array([1, 0, 2.5, 0, 3], np.float16))
    found = sampling_weights(split, tensors, "w", PLACE, is_balance=False)
    assert (found.dtype, found.tolist()) == (np.float64, [1, 0, 2.5, 0, 3])


def test_the_name_itself_comes_before_that_of_the_split() -> None:
    split, tensors = held("w", np.arange(5.0))
    tensors["train.w"] = stored_array(FILE, "train.w", np.ones(5))
    assert sampling_weights(split, tensors, "w", PLACE, is_balance=False).tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_classes_are_drawn_equally_often() -> None:
    split, tensors = held("y", np.array([7, -1, 7, 7, 3]))
    found = sampling_weights(split, tensors, "y", PLACE, is_balance=True)
    assert found.tolist() == pytest.approx([1 / 3, 1, 1 / 3, 1 / 3, 1])


SIGNS = "some are below 0 or not finite, or all are 0"


@pytest.mark.parametrize(
    ("values", "is_balance", "reason"),
    [
        (np.ones(4), False, "it is f64[4], and there are 5 examples"),
        (np.ones((5, 1)), False, "it is f64[5, 1], and there are 5 examples"),
        (np.ones(7, np.int32), True, "it is i32[7], and there are 5 examples"),
        (np.ones(5, np.float32), True, "classes are integers, and it is f32[5]"),
        (np.array([1, 2, 3, 4, -0.5]), False, SIGNS),
        (np.array([1, 2, 3, 4, np.nan]), False, SIGNS),
        (np.array([1, 2, 3, 4, np.inf]), False, SIGNS),
        (np.zeros(5), False, SIGNS),
    ],
)
def test_what_are_no_weights_is_refused(values: Array, *, is_balance: bool, reason: str) -> None:
    split, tensors = held("w", values)
    with pytest.raises(ProblemError) as caught:
        sampling_weights(split, tensors, "w", PLACE, is_balance=is_balance)
    assert caught.value.problem == WrongWeights(PLACE, "w", reason)


@pytest.mark.parametrize("is_balance", [False, True])
def test_each_file_has_as_many_weights_as_examples(tmp_path: Path, *, is_balance: bool) -> None:
    """Not only all of them together: the weights of one would be those of others."""
    for count, (first, second) in {5: (5, 5), 4: (4, 6)}.items():
        for number, length in enumerate((first, second)):
            kinds = np.ones(length, np.int32)
            np.savez(tmp_path / f"{count}-{number}.npz", x=np.zeros((5, 2)), w=kinds)
        tensors = open_data(tmp_path / f"{count}-*.npz")
        split = match_data(tensors, DEMAND, FILE).train
        assert isinstance(split, StoredSplit)
        if count == 5:
            assert len(sampling_weights(split, tensors, "w", PLACE, is_balance=is_balance)) == 10
            continue
        with pytest.raises(ProblemError) as caught:
            sampling_weights(split, tensors, "w", PLACE, is_balance=is_balance)
        reason = f"`{tmp_path / '4-0.npz'}` has 4 of it, and 5 examples"
        assert caught.value.problem == WrongWeights(PLACE, "w", reason)


def test_weights_of_bfloat16_are_refused() -> None:
    split, tensors = held("v", np.ones(5))
    tensors["w"] = StoredTensor(FILE, "w", "bf16", np.ones(5, np.uint16))
    with pytest.raises(ProblemError) as caught:
        sampling_weights(split, tensors, "w", PLACE, is_balance=False)
    assert caught.value.problem == WrongWeights(PLACE, "w", "weights are f16, f32 or f64")


def test_a_tensor_that_is_not_there_is_named_with_those_that_are() -> None:
    split, tensors = held("w", np.ones(5))
    with pytest.raises(ProblemError) as caught:
        sampling_weights(split, tensors, "test.w", PLACE, is_balance=False)
    assert caught.value.problem == MissingTensor(PLACE, FILE, "test.w", tuple(tensors))
