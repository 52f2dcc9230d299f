"""Several files as one: what they hold is joined, in order, and read as if it were in one."""

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data.data_files import find_data, find_data_below, open_data
from meganeura_runtime.io.data.data_problems import NoData, OutsideFolder, UnequalExamples
from meganeura_runtime.io.data.dataset import InputSpec, match_data
from meganeura_runtime.io.data.index_bounds import bounded
from meganeura_runtime.io.data.index_problems import IndexOutside
from meganeura_runtime.io.data.source_problems import UnlikeShards
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.files.file_problems import NotFinite, OutOfRange
from meganeura_runtime.io.tensors.file_array import InFile
from meganeura_runtime.io.tensors.joined_array import Joined, joined

X = np.arange(60, dtype=np.float32).reshape(20, 3)
Y = np.arange(20, dtype=np.int64)
BATCH = dim("batch")
DEMAND = InputSpec(
    {"x": TensorType(DType.F32, (BATCH, 3)), "y": TensorType(DType.I32, (BATCH,))}, {"batch": 4}
)
CUTS = (0, 7, 8, 20)
"""The ends of the shards."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        part = {"x": X[start:stop], "y": Y[start:stop]}
        save_file(part, tmp_path / f"train-{number}.safetensors")
    return tmp_path


def test_rows_are_those_of_one_file(folder: Path) -> None:
    path = find_data_below("train-*.safetensors", folder)
    split = match_data(open_data(path), DEMAND, path).train
    assert split.examples == 20
    for rows in (slice(0, 20), slice(5, 9), slice(8, 8), slice(7, 8)):
        assert np.array_equal(split.take(rows)["x"], X[rows])
    rows = np.random.default_rng(0).permutation(20)
    taken = split.take(rows)
    assert np.array_equal(taken["x"], X[rows])
    assert np.array_equal(taken["y"], Y[rows])
    assert taken["y"].dtype == np.int32
    content = open_data(path)["x"].content
    for start, stop, step in product((None, 0, 3, 8, -2), (None, 0, 8, 19, -1), (None, 1, 2, 5)):
        assert np.array_equal(content[slice(start, stop, step)], X[start:stop:step])
    assert np.array_equal(content[slice(15, 2, -3)], X[15:2:-3])


def test_rows_are_read_one_by_one_where_all_are_too_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shard is cached, though each of them is small enough."""
    monkeypatch.setattr("meganeura_runtime.io.tensors.joined_array.HELD", 200)
    monkeypatch.setattr("meganeura_runtime.io.tensors.file_array.HELD", 200)
    content = open_data(folder / "train-*.safetensors")["x"].content
    rows = np.array([19, 0, 7, 6])
    assert isinstance(content, Joined)
    assert np.array_equal(content[rows], X[rows])
    assert not any(isinstance(part, InFile) and part._held for part in content.parts)


def test_files_are_named_by_a_glob_below_the_program(folder: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        find_data_below("../*.safetensors", folder)
    assert isinstance(caught.value.problem, OutsideFolder)
    with pytest.raises(ProblemError) as caught:
        find_data("valid-*.safetensors", folder)
    assert isinstance(caught.value.problem, NoData)
    with pytest.raises(ProblemError, match=r"did you mean `.*train-1\.safetensors`"):
        find_data("trian-1.safetensors", folder)
    assert find_data(str(folder / "train-[01].safetensors"), Path()).name.startswith("train-")


@pytest.mark.parametrize("name", ["[12]", "a?", "a*", "[!x]/.b"])
def test_a_folder_that_is_there_is_no_pattern(name: str, tmp_path: Path) -> None:
    for folder, value in ((name, 5), ("1", 7), ("ab", 8), ("y/.b", 9)):
        (tmp_path / folder).mkdir(parents=True)
        np.save(tmp_path / folder / "x.npy", np.full(3, value))
    path = find_data("x*.npy", tmp_path / name)
    assert open_data(path)["x"].bits.tolist() == [5, 5, 5]
    assert open_data(tmp_path / "[0-9]" / "x*.npy")["x"].bits.tolist() == [7, 7, 7]


def test_hidden_files_are_no_shards(folder: Path) -> None:
    """Nor tensors of a folder; a pattern that begins with a dot means them."""
    (folder / "._train-0.safetensors").write_bytes(b"resource fork")
    (folder / ".cache").mkdir()
    save_file({"x": X, "y": Y}, folder / ".cache" / "train-7.safetensors")
    for pattern in ("*.safetensors", "*train*", "**/*.safetensors"):
        assert open_data(folder / pattern)["x"].shape == (20, 3), pattern
    assert open_data(folder / ".cach*" / "*.safetensors")["x"].shape == (20, 3)
    np.save(folder / "x.npy", X)
    (folder / "._x.npy").write_bytes(b"resource fork")
    assert [*open_data(folder)] == ["x"]


@pytest.mark.parametrize(
    "other",
    [
        {"x": X},
        {"x": X[:, :2], "y": Y},
        {"x": X, "y": Y.astype(np.int32)},
        {"x": X, "y": Y, "z": Y},
    ],
)
def test_what_is_not_alike_is_not_joined(folder: Path, other: dict[str, np.ndarray]) -> None:
    save_file(
        {name: np.ascontiguousarray(x) for name, x in other.items()}, folder / "train-3.safetensors"
    )
    with pytest.raises(ProblemError) as caught:
        open_data(folder / "train-*.safetensors")
    problem = caught.value.problem
    assert isinstance(problem, UnlikeShards)
    assert problem.file.name == "train-3.safetensors"


def test_examples_lie_in_one_shard_each(folder: Path) -> None:
    """As many images as labels in all, and yet none beside its own."""
    save_file({"x": X[:6], "y": Y[:6]}, folder / "other-0.safetensors")
    save_file({"x": X[:4], "y": Y[:5]}, folder / "other-1.safetensors")
    save_file({"x": X[:6], "y": Y[:5]}, folder / "other-2.safetensors")
    path = folder / "other-*.safetensors"
    with pytest.raises(ProblemError) as caught:
        match_data(open_data(path), DEMAND, path)
    problem = caught.value.problem
    assert isinstance(problem, UnequalExamples)
    assert problem.file.name == "other-1.safetensors"


def test_examples_of_several_rows_lie_in_one_shard_each(folder: Path) -> None:
    inputs = {**DEMAND.inputs, "x": TensorType(DType.F32, (2 * BATCH, 3))}
    for number, (start, stop) in enumerate(((0, 3), (3, 7))):
        part = {"x": X[2 * start : 2 * stop], "y": Y[start:stop]}
        save_file(part, folder / f"other-{number}.safetensors")
    path = folder / "other-*.safetensors"
    split = match_data(open_data(path), InputSpec(inputs, {"batch": 4}), path).train
    assert split.examples == 7
    assert np.array_equal(split.take(np.array([5, 2]))["x"], X[[10, 11, 4, 5]])
    assert split.take(np.array([5, 2]))["y"].tolist() == [5, 2]


@pytest.mark.parametrize("shapes", [((), ()), ((3,), ()), ((), (3,))])
def test_what_has_no_first_axis_is_not_joined(
    shapes: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    for number, shape in enumerate(shapes):
        save_file({"x": np.ones(shape, np.float32)}, tmp_path / f"{number}.safetensors")
    with pytest.raises(ProblemError) as caught:
        open_data(tmp_path / "*.safetensors")
    problem = caught.value.problem
    assert isinstance(problem, UnlikeShards)
    assert problem.file.name == f"{shapes.index(())}.safetensors"


def test_parts_are_cached_up_to_the_size_of_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those in memory there is nothing to cache; a file alone is joined with none."""
    files = [folder / "train-0.safetensors", folder / "train-1.safetensors"]
    for spare, is_held in ((0, True), (-1, False)):
        monkeypatch.setattr("meganeura_runtime.io.tensors.joined_array.HELD", 8 * 12 + 4 + spare)
        in_files = [open_data(file)["x"].content for file in files]
        assert all(isinstance(each, InFile) for each in in_files)
        values = joined([*in_files, np.zeros((1, 1), np.float32)], [*files, files[0]])
        assert isinstance(values, Joined)
        assert [part.is_held for part in values.parts if isinstance(part, InFile)] == [is_held] * 2
        assert joined(in_files[:1], files[:1]) is in_files[0]


@pytest.mark.parametrize("is_large", [False, True])
def test_data_of_up_to_a_size_is_checked_before_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    """The bytes of all tensors that are fed count: 20 rows of three f32, and 20 i64."""
    monkeypatch.setattr("meganeura_runtime.io.data.dataset.READ_FIRST", 400 - is_large)
    path = folder / "train-*.safetensors"
    split = match_data(open_data(path), DEMAND, path).train
    assert isinstance(split, StoredSplit)
    assert [feed.is_verified for feed in split.feeds.values()] == [not is_large] * 2
    one = match_data(
        open_data(path), InputSpec({"y": DEMAND.inputs["y"]}, {"batch": 4}), path
    ).train
    assert isinstance(one, StoredSplit)
    assert one.feeds["y"].is_verified


def test_a_single_index_is_checked_as_it_is_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.io.data.dataset.READ_FIRST", 1)
    inputs = {"x": DEMAND.inputs["x"], "place": TensorType(DType.I32, ())}
    demand = InputSpec(inputs, {"batch": 4}, whole=frozenset({"place"}))
    path = tmp_path / "one.safetensors"
    for place in (4, 5):
        save_file({"x": X, "place": np.array(place)}, path)
        data = bounded(match_data(open_data(path), demand, path), {"place": Bound(5)}, None)
        if place < 5:
            assert data.train.take(slice(0, 4))["place"] == 4
            continue
        with pytest.raises(ProblemError) as caught:
            data.train.take(slice(0, 4))
        assert isinstance(caught.value.problem, IndexOutside)
        assert caught.value.problem.index == ()


def test_what_is_large_is_checked_as_it_is_fed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.io.data.dataset.READ_FIRST", 100)
    spoilt, wide = X[:8].copy(), Y[:8].copy()
    spoilt[5, 1] = np.nan
    wide[6], wide[2] = 1 << 40, 12
    save_file({"x": spoilt, "y": wide}, folder / "train-3.safetensors")
    path = folder / "train-*.safetensors"
    dataset = bounded(match_data(open_data(path), DEMAND, path), {"y": Bound(30)}, None)
    dataset = bounded(dataset, {"y": Bound(12)}, None)
    assert dataset.train.take(np.array([3, 11, 21]))["y"].tolist() == [3, 11, 1]
    for rows, kind, index in (
        (np.array([3, 25]), NotFinite, (25, 1)),
        (slice(26, 28), OutOfRange, (26,)),
        (np.array([1, 2, 22]), IndexOutside, (22,)),
    ):
        with pytest.raises(ProblemError) as caught:
            dataset.train.take(rows)
        assert isinstance(caught.value.problem, kind)
        assert caught.value.problem.index == index
