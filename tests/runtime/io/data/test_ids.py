"""Integers that pick something: their bounds are read off the graph, their values are looked at."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import Bound, leaf_bounds
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data import dataset as datasets
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data
from meganeura_runtime.io.data.index_bounds import bounded, check_ids
from meganeura_runtime.io.data.index_problems import (
    ComputedIndexOutside,
    IndexOutside,
    require_inside,
)
from meganeura_runtime.io.tensors import stored_tensor
from meganeura_runtime.io.tensors.stored_tensor import stored_array

CLASSES = """\
train fit(x: [batch, 3], label: i32[batch]):
  minimize {loss}(x |> fc: linear(5), label)
"""

WORDS = """\
block Words()(word: i32[n], place: i32[n], weight: i32[n]) -> [n, 4]:
  param table: [7, 4] = normal(1.0)
  param places: [9, 4] = normal(1.0)
  return gather(table, word) + gather(places, place) + insert_axis(f32(weight), 1, 4)

model words = Words()
"""


def linked(text: str, folder: Path) -> pipeline.Program:
    (folder / "net.mgn").write_text(text)
    return pipeline.load(str(folder / "net.mgn"))


def graph_of_training(text: str, folder: Path) -> Graph:
    return pipeline.elaborate_train(linked(text, folder), sizes={}, training=True).graph


def test_a_class_is_one_of_those_the_loss_compares_with(tmp_path: Path) -> None:
    graph = graph_of_training(CLASSES.format(loss="cross_entropy"), tmp_path)
    assert leaf_bounds(graph) == {"label": Bound(5)}


def test_a_label_the_loss_leaves_out_is_no_mistake(tmp_path: Path) -> None:
    graph = graph_of_training(CLASSES.format(loss="masked_cross_entropy"), tmp_path)
    bound = leaf_bounds(graph)["label"]
    assert bound == Bound(5, frozenset({-100}))
    check_ids(stored_array(Path("x"), "label", np.array([4, -100, 0])), bound)
    with pytest.raises(ProblemError, match="E0535"):
        check_ids(stored_array(Path("x"), "label", np.array([4, -1])), bound)


def test_a_bound_of_no_known_line_is_reported_without_one() -> None:
    told = str(IndexOutside(None, "", "x", (0,), 7, Bound(5)).report())
    assert "needed here" not in told
    assert "found at" in told


@pytest.mark.parametrize(
    ("value", "count", "wanted", "cure"),
    [
        (7, 5, "below 5", "pick from more than 7, or feed less, so that the index is smaller"),
        (0, 0, "below 0", "pick from more than 0, or feed less, so that the index is smaller"),
        (-1, 5, "at least 0", "an index counts from 0, and never from the end"),
    ],
)
def test_an_index_is_told_with_what_it_must_be(
    value: int, count: int, wanted: str, cure: str
) -> None:
    given = IndexOutside(None, "", "x", (0,), value, Bound(count, shown=str(count))).report()
    assert given.headline == f"`x` holds {value}, and must be {wanted}"
    computed = ComputedIndexOutside(value, count, "").report()
    assert computed.headline == f"a computed index is {value}, and must be {wanted}"
    assert computed.help is not None
    assert (computed.help.text, computed.help.code) == (cure, None)


def test_an_index_is_one_of_the_rows_of_its_table(tmp_path: Path) -> None:
    graph = pipeline.elaborate_model(linked(WORDS, tmp_path)).graph
    assert leaf_bounds(graph) == {"word": Bound(7), "place": Bound(9)}


@pytest.mark.parametrize("values", [[], [0], [[0, 4], [3, 1]]])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_indices_that_pick_something(values: list[int], dtype: type[np.generic]) -> None:
    check_ids(stored_array(Path("x"), "label", np.array(values, dtype)), Bound(5))


@pytest.mark.parametrize(
    ("values", "index", "value"),
    [
        (np.array([0, 5], np.uint8), (1,), 5),
        (np.array([[0, 4], [-1, 9]], np.int32), (1, 0), -1),
        (np.array([2**63 - 1]), (0,), 2**63 - 1),
        (np.array(255, np.uint8), (), 255),
    ],
)
def test_the_first_index_that_picks_nothing_is_told(
    values: np.ndarray, index: tuple[int, ...], value: int
) -> None:
    with pytest.raises(ProblemError) as caught:
        check_ids(stored_array(Path("x"), "label", values), Bound(5))
    problem = caught.value.problem
    assert isinstance(problem, IndexOutside)
    assert (problem.index, problem.value, problem.bound.count) == (index, value, 5)


def test_an_index_is_told_by_its_row_where_a_tensor_is_looked_at_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though a row alone is larger than a piece."""
    monkeypatch.setattr(stored_tensor, "CHUNK_BYTES", 3)
    values = np.array([[0, 4], [1, 2], [3, 5]], np.int64)
    for held, index in ((values, (2, 1)), (values[:, 1], (2,))):
        with pytest.raises(ProblemError) as caught:
            check_ids(stored_array(Path("x"), "label", held), Bound(5))
        problem = caught.value.problem
        assert isinstance(problem, IndexOutside)
        assert problem.index == index


def fed(dataset: Dataset, bound: Bound) -> list[list[int]]:
    """All indices of what is trained on and of what is held out."""
    checked = bounded(dataset, {"y": bound}, None)
    assert checked.test is not None
    return [each.take(slice(0, 3))["y"].tolist() for each in (checked.train, checked.test)]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("spoilt", ["train", "test"])
def test_an_index_that_picks_nothing_is_refused_held_out_or_not(
    spoilt: str, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    """Large data is checked as it is fed, and all else before."""
    if is_large:
        monkeypatch.setattr(datasets, "READ_FIRST", 1)
    path = Path("digits")
    found = {f"{each}.y": [0, 4, 5 if each == spoilt else 2] for each in ("train", "test")}
    stored = {name: stored_array(path, name, np.array(each)) for name, each in found.items()}
    demand = InputSpec({"y": TensorType(DType.I32, (dim("batch"),))}, {"batch": 1})
    dataset = match_data(stored, demand, path)
    assert fed(dataset, Bound(6)) == list(found.values())
    with pytest.raises(ProblemError) as caught:
        _ = fed(dataset, Bound(5)) if is_large else bounded(dataset, {"y": Bound(5)}, None)
    problem = caught.value.problem
    assert isinstance(problem, IndexOutside)
    assert (problem.name, problem.index, problem.value) == (f"{spoilt}.y", (2,), 5)


@pytest.mark.parametrize(
    ("signed", "unsigned", "outside"),
    [
        (4, 4, None),
        (5, 4, 5),
        (0, 5, 5),
        (6, 7, 6),
        ((1 << 32) - 1, 0, -1),
        (1 << 31, 0, -(1 << 31)),
        ((1 << 31) - 1, 0, (1 << 31) - 1),
        (0, (1 << 32) - 1, (1 << 32) - 1),
    ],
)
def test_every_check_of_a_step_has_to_hold(signed: int, unsigned: int, outside: int | None) -> None:
    """The largest index is looked at as if it had no sign, so that negative ones are large."""
    checks = (IndexCheck(0, DType.I32, 5, "a.mgn:1"), IndexCheck(1, DType.U32, 5, ""))
    largest = (np.array(signed, np.uint32), np.array(unsigned, np.uint32))
    made: dict[str, Array] = dict(zip(checks, largest, strict=True))
    if outside is None:
        require_inside(checks, made)
        return
    with pytest.raises(ProblemError) as caught:
        require_inside(checks, made)
    location = "a.mgn:1" if signed > 4 else ""
    assert caught.value.problem == ComputedIndexOutside(outside, 5, location)


def test_a_comparison_with_another_result_bounds_nothing_more(tmp_path: Path) -> None:
    text = CLASSES.format(loss="cross_entropy") + "  metric a = mean(argmax(x, 1) == label)\n"
    assert leaf_bounds(graph_of_training(text, tmp_path)) == {"label": Bound(5)}
