"""Examples and batches from Python: arrays by name, or the reason against them."""

from collections.abc import Iterator

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data.data_problems import DataShape, DataType, UnequalExamples
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.index_problems import IndexOutside
from meganeura_runtime.io.data.python_data import Batches, python_data
from meganeura_runtime.io.data.python_items import FROM_PYTHON, as_array, as_tensor, named_arrays
from meganeura_runtime.io.data.source_problems import (
    NotData,
    NotForStreams,
    StreamEnded,
    Uncounted,
    WrongBatch,
)
from meganeura_runtime.io.data.streams import StreamSplit, checked_batch, stream

N = dim("n")
DEMAND = InputSpec(
    {"x": TensorType(DType.F32, (N, 2)), "y": TensorType(DType.I32, (N,))},
    {"n": 2},
    tensors={"y": "label"},
)
X, Y = np.ones((2, 2)), np.arange(2)


@pytest.mark.parametrize(
    "item", [{"label": Y, "text": "more", "x": X}, (X, Y), [X, Y], (X.tolist(), (0, 1))]
)
def test_parts_are_known_by_name_or_by_their_order(item: object) -> None:
    found = named_arrays(item, DEMAND, "item 3")
    assert [*found] == ["x", "label"]
    assert np.array_equal(found["x"], X)
    assert np.array_equal(found["label"], Y)


ONLY_INPUTS = ("x", "y")


@pytest.mark.parametrize(
    ("item", "what", "reason"),
    [
        ({"x": X, "y": Y}, "item 3", "it has no `label`, only x, y"),
        ({}, "item 3", "it has no `x`, only nothing"),
        ((X,), "item 3", "it has 1 parts, and there are 2 inputs"),
        ((X, Y, Y), "item 3", "it has 3 parts, and there are 2 inputs"),
        (X, "item 3", "it is neither a dictionary nor a tuple, but of type ndarray"),
        ("xy", "item 3", "it is neither a dictionary nor a tuple, but of type str"),
        ((X, "seven"), "`label` of item 3", "it holds no numbers, but <U5"),
        ((X, None), "`label` of item 3", "it holds no numbers, but object"),
        (({1: 2}, Y), "`x` of item 3", "it holds no numbers, but object"),
        ((X, 1j), "`label` of item 3", "it holds no numbers, but complex128"),
    ],
)
def test_what_is_no_item_is_refused(item: object, what: str, reason: str) -> None:
    with pytest.raises(ProblemError) as caught:
        named_arrays(item, DEMAND, "item 3")
    assert caught.value.problem == NotData(what, reason, ONLY_INPUTS)


@pytest.mark.parametrize("value", [True, 3, 2.5, np.uint8(9), [1, 2], [[True], [False]]])
def test_any_numbers_are_an_array(value: object) -> None:
    assert np.array_equal(as_array(value, "x", DEMAND), np.asarray(value))


def test_rows_of_several_lengths_are_no_array() -> None:
    with pytest.raises(ProblemError) as caught:
        as_array([[1, 2], [3]], "`x`", DEMAND)
    problem = caught.value.problem
    assert isinstance(problem, NotData)
    assert (problem.what, "inhomogeneous" in problem.reason) == ("`x`", True)


def test_a_type_that_no_graph_has_is_refused() -> None:
    with pytest.raises(ProblemError, match="`x`"):
        as_tensor("x", np.zeros(2, np.longdouble), "`x`", DEMAND)
    assert as_tensor("x", X.astype(np.float32), "`x`", DEMAND).shape == (2, 2)


def stream_of(*counts: int, batch: int = 4, drop_last: bool = True) -> StreamSplit:
    """Batches of so many examples, which are numbered from 0."""
    demand = InputSpec({"x": TensorType(DType.F32, (N,))}, {"n": batch})
    starts = [sum(counts[:place]) for place in range(len(counts))]
    batches = [
        {"x": np.arange(start, start + count, dtype=np.float32)}
        for start, count in zip(starts, counts, strict=True)
    ]
    return StreamSplit(batches, demand, sum(counts), drop_last=drop_last)


def test_a_stream_gives_what_is_asked_for_or_says_why_not() -> None:
    split = stream_of(4, 4, 3, drop_last=False)
    for as_asked in np.array, lambda numbers: slice(numbers.start, numbers.stop):
        for examples in (range(4), range(4, 8), range(8, 11), range(4)):
            assert split.take(as_asked(examples))["x"].tolist() == [*examples]
            assert split.take_again(as_asked(examples))["x"].tolist() == [*examples]
    assert stream_of(4, 4).take(np.arange(4, 8))["x"].tolist() == [4, 5, 6, 7]
    after = stream_of(4, 2, 4, drop_last=False)
    assert after.take(np.arange(6, 10))["x"].tolist() == [6, 7, 8, 9]
    assert stream_of(1, 1, batch=1).take(np.arange(1, 2))["x"].tolist() == [1]
    for take in split.take, split.take_again:
        with pytest.raises(ProblemError) as caught:
            take(np.arange(3))
        assert isinstance(caught.value.problem, WrongBatch)
    for split in stream_of(4, 4), stream_of(4, 3):
        with pytest.raises(ProblemError) as caught:
            split.take(np.arange(8, 12))
        assert caught.value.problem == StreamEnded(2, 2)


@pytest.mark.parametrize(
    ("batches", "cure"),
    [(2, "make an epoch shorter: `steps_per_epoch=2`"), (0, "give a new iterator")],
)
def test_data_that_ended_is_told_with_a_cure(batches: int, cure: str) -> None:
    told = StreamEnded(batches, 3).report()
    assert told.help is not None
    assert told.help.text.startswith(cure)


def test_a_batch_is_told_by_its_number_in_its_pass() -> None:
    split = stream_of(4, 4)
    for _ in range(2):
        split.take(np.arange(4))
        with pytest.raises(ProblemError) as caught:
            split.take(np.arange(4, 7))
        assert caught.value.problem == WrongBatch(2, 4, 3, "n")


def test_a_stream_goes_on_in_its_order_only() -> None:
    split = stream_of(4, 4, 4)
    assert split.take_again(np.arange(4))["x"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ProblemError) as caught:
        split.take(np.arange(8, 12))
    assert caught.value.problem == NotForStreams("resume")
    assert split.take_again(np.arange(4, 8))["x"].tolist() == [4, 5, 6, 7]


def test_a_process_takes_its_own_part_of_what_comes() -> None:
    inputs = {"x": TensorType(DType.F32, (2 * N,)), "t": TensorType(DType.F32, (3,))}
    demand = InputSpec(inputs, {"n": 4}, whole=frozenset({"t"}))
    split = stream([{"x": np.arange(8), "t": np.arange(3)}], demand)
    for is_again in (False, True):
        taken = split.take_own(slice(0, 4), range(1, 3), is_again=is_again)
        assert taken["x"].tolist() == [2, 3, 4, 5]
        assert taken["t"].tolist() == [0, 1, 2]


def test_a_batch_that_does_not_fit_is_one_from_python() -> None:
    for item in ((X[:, :1], Y), (X, Y + 0.5), (X, Y[:1])):
        with pytest.raises(ProblemError) as caught:
            checked_batch(item, DEMAND)
        problem = caught.value.problem
        assert isinstance(problem, DataShape | DataType | UnequalExamples)
        assert (problem.file, problem.span) == (FROM_PYTHON, None)
    assert checked_batch((X, Y), DEMAND).examples == 2


def test_each_index_of_a_stream_is_looked_at() -> None:
    inputs = {name: TensorType(DType.I32, (N,)) for name in ("a", "b")}
    bounds = {"other": Bound(1), "a": Bound(4), "b": Bound(3)}
    split = stream([{"a": np.arange(4), "b": np.arange(4)}], InputSpec(inputs, {"n": 4}))
    with pytest.raises(ProblemError) as caught:
        split.bounded(bounds).take(np.arange(4))
    assert isinstance(caught.value.problem, IndexOutside)
    assert (caught.value.problem.name, caught.value.problem.index) == ("b", (3,))


def test_without_a_free_size_each_batch_is_one_example() -> None:
    demand = InputSpec({"x": TensorType(DType.F32, (3,))}, {})
    with pytest.raises(ProblemError) as caught:
        stream([{"x": np.zeros(6)}], demand).take(slice(0, 1))
    assert caught.value.problem == WrongBatch(1, 2, 1, None)


class Counted:
    """An iterable that says how many batches it has, and perhaps more."""

    def __init__(self, **told: object) -> None:
        self.__dict__.update(told)

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[object]:
        return iter(())


@pytest.mark.parametrize(
    ("told", "examples"),
    [
        ({}, 24),
        ({"batch_size": 4, "sampler": range(22), "drop_last": False}, 22),
        ({"batch_size": 4, "sampler": range(22), "drop_last": True}, 24),
        ({"batch_size": 4, "sampler": range(22)}, 24),
        ({"batch_size": 4, "sampler": None, "drop_last": False}, 24),
        ({"batch_size": None, "sampler": range(22), "drop_last": False}, 24),
        ({"batch_size": 4, "drop_last": False}, 24),
    ],
)
def test_examples_of_a_pass_are_what_the_data_says(told: dict[str, object], examples: int) -> None:
    demand = InputSpec({"x": TensorType(DType.F32, (N,))}, {"n": 4})
    assert stream(Counted(**told), demand).examples == examples
    assert stream(Counted(**told), demand, steps=2, held_out=True).examples == examples


def test_examples_of_a_pass_are_counted_or_asked_for() -> None:
    demand = InputSpec({"x": TensorType(DType.F32, (N,))}, {"n": 4})
    batches = [{"x": np.zeros(count)} for count in (4, 4, 3)]
    for data in (batches, tuple(batches)):
        assert stream(data, demand, steps=7).examples == 11
    assert stream(iter(batches), demand, steps=7).examples == 28
    for steps, held_out in ((None, False), (None, True), (7, True)):
        with pytest.raises(ProblemError) as caught:
            stream(iter(batches), demand, steps=steps, held_out=held_out)
        assert caught.value.problem == Uncounted(held_out)


def test_what_is_fed_whole_alone_is_no_example() -> None:
    """Each item is then a batch: nothing tells it from an example."""
    demand = InputSpec({"x": TensorType(DType.F32, (3,))}, {}, whole=frozenset({"x"}))
    assert isinstance(python_data([{"x": np.zeros(3)}] * 2, demand), Batches)


class Unpickable:
    """An iterable with a length, of which items cannot be picked by their numbers."""

    def __init__(self, refusal: type[Exception]) -> None:
        self.refusal = refusal

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __getitem__(self, number: int) -> object:
        raise self.refusal


@pytest.mark.parametrize("refusal", [NotImplementedError, TypeError, KeyError])
def test_what_does_not_let_items_be_picked_gives_batches(refusal: type[Exception]) -> None:
    """PyTorch's `IterableDataset` does so by the first."""
    data = Unpickable(refusal)
    found = python_data(data, DEMAND)
    assert isinstance(found, Batches)
    assert found.data is data
