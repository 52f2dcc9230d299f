"""Examples of a data set of Python: fetched when they are fed, all inputs of one together."""

from typing import cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.python_rows import LOOKED_AT, Examples, row_tensors
from meganeura_runtime.io.data.source_problems import NotData, UnlikeExamples
from meganeura_runtime.io.tensors.stored_tensor import BITS, Array

N = dim("n")
DEMAND = InputSpec({"x": TensorType(DType.F32, (N, 2)), "y": TensorType(DType.I32, (N,))}, {"n": 2})
MANY = 1200
X = np.zeros(2, np.float32)


class Rows:
    """Examples whose elements tell their numbers, but for some; counts those it is asked for."""

    def __init__(self, count: int = MANY, **odd: object) -> None:
        self.count, self.odd = count, odd
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> object:
        self.asked.append(number)
        x = np.array([number, -number], np.float32)
        return self.odd.get(f"n{number}", {"x": x, "y": np.int32(3 * number)})


class Together(Rows):
    """The same, several at a time."""

    def __getitems__(self, numbers: list[int]) -> list[object]:
        return [self[number] for number in numbers]


@pytest.mark.parametrize("kind", [Rows, Together])
def test_each_example_is_asked_for_once_for_all_inputs(kind: type[Rows]) -> None:
    data = kind()
    tensors = row_tensors(data, DEMAND)
    assert {name: (str(each), each.content.shape) for name, each in tensors.items()} == {
        "x": ("f32[1200, 2]", (MANY, 2)), "y": ("i32[1200]", (MANY,)),
    }  # fmt: skip
    data.asked.clear()
    for rows, numbers in (
        (np.array([7, 1199, 0]), [7, 1199, 0]),
        (slice(3, 9, 2), [3, 5, 7]),
        (slice(1198, 5000), [1198, 1199]),
        (np.array([7, 1199, 0]), [7, 1199, 0]),
        (np.array([0, 7, 1199]), [0, 7, 1199]),
        (np.array([0, 1199, 7, 7]), [0, 1199, 7, 7]),
        (np.array([0, 1199, 7]), [0, 1199, 7]),
    ):
        x, y = tensors["x"].content[rows], tensors["y"].content[rows]
        assert x.tolist() == [[number, -number] for number in numbers]
        assert y.tolist() == [3 * number for number in numbers]
        assert data.asked == numbers
        data.asked.clear()


def test_examples_that_are_drawn_anew_each_time_are_asked_for_each_time() -> None:
    """As a data set that augments has them: a batch of all examples is the same numbers again."""
    data = Rows()
    tensors = row_tensors(data, DEMAND)
    data.asked.clear()
    for _ in range(3):
        for name in ("x", "y"):
            tensors[name].content[slice(0, 2)]
    assert data.asked == [0, 1] * 3


def test_inputs_that_are_asked_for_apart_are_of_the_examples_asked_for() -> None:
    tensors = row_tensors(Rows(), DEMAND)
    x, y = (tensors[name].content for name in ("x", "y"))
    assert x[slice(0, 2)].tolist() == [[0, 0], [1, -1]]
    assert y[slice(2, 4)].tolist() == [6, 9]
    assert x[np.array([5, 4])].tolist() == [[5, -5], [4, -4]]
    assert y[slice(0, 2)].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("value", "stored", "bits"),
    [
        (np.int64(2**40 + 1), "i64", 2**40 + 1),
        (np.float64(1 / 3), "f64", 1 / 3),
        (np.uint8(200), "u8", 200),
        (np.array(1, np.bool_), "bool", 1),
        (np.array(-5, ">i2"), "i16", -5),
        (2**24 + 1, "i64", 2**24 + 1),
    ],
)
def test_elements_are_kept_to_the_last_bit(value: object, stored: str, bits: float) -> None:
    data = [(X, value)] * 3
    tensor = row_tensors(cast("Examples", data), DEMAND)["y"]
    assert str(tensor) == f"{stored}[3]"
    found = tensor.content[slice(1, 3)]
    assert (found.dtype, found.tolist()) == (BITS[stored], [bits, bits])


def test_what_was_fetched_is_not_changed_by_who_has_it() -> None:
    content = row_tensors(Rows(), DEMAND)["x"].content
    content[slice(0, 2)][:] = 9
    assert content[slice(0, 2)].tolist() == [[0, 0], [1, -1]]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ((X, np.int32(1)), None),
        ({"x": X}, NotData("example 1,003", "it has no `y`, only x", ("x", "y"))),
        (
            (X, "seven"),
            NotData("`y` of example 1,003", "it holds no numbers, but <U5", ("x", "y")),
        ),
        ((np.zeros(3, np.float32), 1), UnlikeExamples(1003, "x", "f32[3]", "f32[2]")),
        ((X.astype(np.float16), np.int32(1)), UnlikeExamples(1003, "x", "f16[2]", "f32[2]")),
        ((X, np.int64(1)), UnlikeExamples(1003, "y", "i64[]", "i32[]")),
    ],
)
def test_an_example_unlike_the_first_is_refused_when_it_is_fed(
    item: object, problem: Problem | None
) -> None:
    content = row_tensors(Rows(n1003=item), DEMAND)["x"].content
    content[slice(1000, 1003)]
    if problem is None:
        assert content[slice(1002, 1004)].tolist() == [[1002, -1002], [0, 0]]
        return
    with pytest.raises(ProblemError) as caught:
        content[slice(1002, 1005)]
    assert caught.value.problem == problem


def test_a_type_that_no_graph_has_is_told_with_the_example() -> None:
    """As is that of the first one."""
    for number in (0, 5):
        data = Rows(MANY, **{f"n{number}": (np.zeros(2, np.longdouble), np.int32(1))})
        with pytest.raises(ProblemError) as caught:
            row_tensors(data, DEMAND)["x"].content[slice(4, 6)]
        problem = caught.value.problem
        assert isinstance(problem, NotData)
        assert problem.what == f"example {number}"


@pytest.mark.parametrize("count", [1, 2, LOOKED_AT, LOOKED_AT + 1, MANY])
def test_a_data_set_is_known_by_examples_spread_over_all_of_it(count: int) -> None:
    def digests(data: Rows) -> list[str | None]:
        tensors = row_tensors(data, DEMAND)
        return [getattr(each.content, "digest", None) for each in tensors.values()]

    plain = Rows(count)
    before = digests(plain)
    assert before == digests(Rows(count))
    assert len(set(before)) == 2
    looked_at = sorted(set(plain.asked))
    assert len(looked_at) == min(count, LOOKED_AT)
    assert (looked_at[0], looked_at[-1]) == (0, count - 1)
    assert max(np.diff(looked_at), default=0) <= -(-count // (LOOKED_AT - 1))
    other: Array = np.array([0.5, 0], np.float32)
    last = {f"n{count - 1}": (other, np.int32(3 * count - 3))}
    assert [a == b for a, b in zip(before, digests(Rows(count, **last)), strict=True)] == [
        False, True,
    ]  # fmt: skip
