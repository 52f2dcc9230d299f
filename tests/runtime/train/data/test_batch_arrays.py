"""Arrays of a batch in the types of the inputs: of all types into all others."""

import warnings
from typing import cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array
from meganeura_runtime.train.data.batch_arrays import BatchReader
from meganeura_runtime.train.training_problems import BatchMismatch, InputMismatch
from tests.folded import each_of

GIVEN = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


def read(dtype: DType, array: Array) -> Array:
    reader = BatchReader("fit", {"x": TensorType(dtype, (dim("n"),))})
    return reader.read({"x": array}).arrays["x"]


@each_of("dtype", DType)
@each_of("given", GIVEN)
def test_a_type_becomes_another_where_no_value_changes_its_meaning(
    dtype: DType, given: str
) -> None:
    array = np.asarray([1, 0, 1], given)
    if array.dtype.kind == "f" and not dtype.is_float:
        with pytest.raises(ProblemError, match="`x`"):
            read(dtype, array)
        return
    found = read(dtype, array)
    assert found.dtype == NUMPY[dtype]
    assert found.tolist() == [1, 0, 1]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_a_real_number_that_is_too_large_is_infinite_and_no_warning(dtype: DType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(dtype, np.asarray([1e300, np.nan])).tolist()[0] == np.inf


@pytest.mark.parametrize("dtype", [DType.I32, DType.U32, DType.BOOL])
def test_a_whole_number_that_does_not_fit_is_refused(dtype: DType) -> None:
    with pytest.raises(ProblemError, match="which"):
        read(dtype, np.asarray([0, 1 << 40]))


def test_a_shape_that_does_not_fit_is_told_with_all_sizes_that_are_known() -> None:
    n, m = dim("n"), dim("m")
    inputs = {"x": TensorType(DType.F32, (n, m)), "y": TensorType(DType.F32, (n, m, 2))}
    reader = BatchReader("fit", inputs)
    reader.read({"x": np.zeros((4, 3)), "y": np.zeros((4, 3, 2))})
    with pytest.raises(ProblemError) as caught:
        reader.read({"x": np.zeros((4, 3)), "y": np.zeros((4, 3, 5))})
    problem = caught.value.problem
    assert isinstance(problem, BatchMismatch)
    assert problem.sizes == (("m", 3), ("n", 4))
    assert problem.wrong == (InputMismatch("y", "[4, 3, 5]", "f32[n, m, 2]"),)


@pytest.mark.parametrize("kind", ["turned", "of every other", "of columns"])
def test_elements_lie_one_after_another(kind: str) -> None:
    reader = BatchReader("fit", {"x": TensorType(DType.F32, (dim("n"), 3))})
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    given = {
        "turned": whole[::-1],
        "of every other": np.repeat(whole, 2, 0)[::2],
        "of columns": np.asfortranarray(whole),
    }[kind]
    found = reader.read({"x": given}).arrays["x"]
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, given)


def test_a_shape_that_is_another_one_turned_is_told() -> None:
    reader = BatchReader("fit", {"x": TensorType(DType.F32, (4, 3))})
    with pytest.raises(ProblemError) as caught:
        reader.read({"x": np.zeros((3, 4))})
    assert isinstance(caught.value.problem, BatchMismatch)
    assert "transposed by [1, 0]?" in caught.value.problem.hint


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError, BufferError])
@pytest.mark.parametrize("message", ["it is elsewhere\nand more", ""])
def test_what_numpy_cannot_read_is_told(error: type[Exception], message: str) -> None:
    """As a tensor of PyTorch that records its gradient says it: by a RuntimeError."""

    class Unreadable:
        def __array__(self, dtype: object = None, copy: object = None) -> Array:
            raise error(message)

    with pytest.raises(ProblemError) as caught:
        read(DType.F32, cast("Array", Unreadable()))
    problem = caught.value.problem
    assert isinstance(problem, BatchMismatch)
    reason = "it is elsewhere" if message else error.__name__
    assert problem.wrong == (InputMismatch("x", f"unreadable ({reason})", "f32[n]"),)


@pytest.mark.parametrize(
    ("batch", "wrong"),
    [
        ({}, [("x", "", "f32[n]"), ("y", "", "i32[n]")]),
        ({"y": [1], "z": [2]}, [("x", "", "f32[n]"), ("z", "given", "")]),
        ({"x": ["a"], "y": [1]}, [("x", "<U1[1]", "f32[n]")]),
        ({"x": [1.5], "y": [0.5]}, [("y", "float64[1]", "i32[n]")]),
    ],
)
def test_a_batch_has_all_inputs_and_no_other(
    batch: dict[str, object], wrong: list[tuple[str, str, str]]
) -> None:
    types = {"x": TensorType(DType.F32, (dim("n"),)), "y": TensorType(DType.I32, (dim("n"),))}
    with pytest.raises(ProblemError) as caught:
        BatchReader("fit", types).read(batch)
    assert isinstance(caught.value.problem, BatchMismatch)
    assert caught.value.problem.wrong == tuple(InputMismatch(*each) for each in wrong)


def test_an_empty_batch_is_told_so() -> None:
    said = InputMismatch("x", "[0, 4]", "f32[n, 4]").said("fit")
    assert said.endswith("and not f32[n, 4]: it is empty")
    assert "empty" not in InputMismatch("x", "[10, 4]", "f32[n, 5]").said("fit")
