"""Tensor types."""

from meganeura_dsl.ir.types import DType, TensorType, example_sizes, free_sizes
from meganeura_dsl.symbolic.size import dim

n, h = dim("n"), dim("h")


def test_a_tensor_type_shows_its_sizes() -> None:
    assert str(TensorType(DType.F32, (n, 3, (h - 1) // 2 + 1, 7))) == "f32[n, 3, ceil(h/2), 7]"
    assert str(TensorType(DType.BOOL, ())) == "bool[]"


def test_types_are_equal_when_their_sizes_are() -> None:
    halved = TensorType(DType.I32, (n, (h - 1) // 2 + 1))
    assert halved == TensorType(DType.I32, (n, (h + 1) // 2))
    assert hash(halved) == hash(TensorType(DType.I32, (n, (h + 1) // 2)))
    assert halved.rank == 2


def test_a_type_changes_in_one_respect() -> None:
    kind = TensorType(DType.F32, (n, 3))
    assert kind.with_shape((n,)) == TensorType(DType.F32, (n,))
    assert kind.with_dtype(DType.I32) == TensorType(DType.I32, (n, 3))


def test_element_types() -> None:
    assert [dtype.value for dtype in DType if dtype.is_float] == ["f32", "f16"]
    assert [dtype.value for dtype in DType if dtype.is_integer] == ["i32", "u32"]
    assert {dtype.value: dtype.bytes for dtype in DType} == {
        "f32": 4,
        "f16": 2,
        "i32": 4,
        "u32": 4,
        "bool": 4,
    }


def test_sizes_left_open_are_named_once_whatever_they_stand_in() -> None:
    types = [TensorType(DType.F32, (n, 3)), TensorType(DType.F32, (h * n, (h + dim("w")) // 2))]
    assert free_sizes(types) == ["h", "n", "w"]
    assert free_sizes(types[:1]) == ["n"]
    assert free_sizes([TensorType(DType.F32, (n * h,))]) == ["h", "n"]
    assert free_sizes([TensorType(DType.F32, (4,))]) == []


def test_the_first_axes_count_examples_and_others_are_lengths() -> None:
    n, h = dim("n"), dim("h")
    types = [TensorType(DType.F32, shape) for shape in ((), (n, h), (n, 2 * h, 7), (3, dim("w")))]
    assert example_sizes(types) == {"n": 1, "h": 32, "w": 32}
