"""Fingerprints of data, so that a resumed run notices other data."""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.checkpoint import Fingerprint
from meganeura_runtime.io.data import dataset as datasets
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data
from meganeura_runtime.io.data.splits import Feed, StoredSplit
from meganeura_runtime.io.tensors.file_array import Rows, RowSource
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor
from meganeura_runtime.train.data.data_fingerprint import (
    SAMPLED_ROWS,
    changes,
    digest,
    fingerprints,
    sampled_digest,
)
from tests.folded import each_of

ROWS = 3 * SAMPLED_ROWS


def stored(values: np.ndarray) -> StoredTensor:
    return StoredTensor(Path("rows.npy"), "rows", "f32", values)


def rows() -> np.ndarray:
    return np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)


@each_of("position", range(0, ROWS, 7))
def test_a_tensor_is_known_by_all_of_its_elements(position: int) -> None:
    changed = rows()
    changed[position, 1] += 1
    assert digest(stored(changed)) != digest(stored(rows()))


@pytest.mark.parametrize("eighth", range(8))
def test_sampled_rows_are_spread_over_the_whole_tensor(eighth: int) -> None:
    changed = rows()
    changed[eighth * ROWS // 8 : (eighth + 1) * ROWS // 8] += 1
    assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()))


@pytest.mark.parametrize("position", [0, -1])
def test_the_first_and_the_last_row_are_sampled(position: int) -> None:
    changed = rows()
    changed[position] += 1
    assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()))


@pytest.mark.parametrize("count", [1, 2, SAMPLED_ROWS - 1, SAMPLED_ROWS])
def test_few_rows_are_all_sampled(count: int) -> None:
    for position in {0, count // 2, count - 1}:
        changed = rows()[:count]
        changed[position] += 1
        assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()[:count]))


@pytest.mark.parametrize("count", [0, 1, SAMPLED_ROWS - 1, SAMPLED_ROWS])
def test_few_rows_are_known_by_all_of_their_elements(count: int) -> None:
    assert sampled_digest(stored(rows()[:count])) == digest(stored(rows()[:count]))


def test_a_digest_is_the_one_that_checkpoints_of_earlier_versions_have() -> None:
    """BLAKE2b of 16 bytes over the elements, or over the rows that stand for them."""
    assert digest(stored(rows())) == blake2b(rows().tobytes(), digest_size=16).hexdigest()
    sampled = rows()[[number * (ROWS - 1) // (SAMPLED_ROWS - 1) for number in range(SAMPLED_ROWS)]]
    assert sampled_digest(stored(rows())) == blake2b(sampled.tobytes(), digest_size=16).hexdigest()


DEMAND = InputSpec(
    {
        "x": TensorType(DType.F32, (dim("batch"), 2)),
        "scale": TensorType(DType.F32, ()),
        "names": TensorType(DType.I32, (dim("many"), 3)),
    },
    {"batch": 2, "many": 0},
    whole=frozenset({"scale", "names"}),
)


def data(**changed: Array) -> dict[str, Array]:
    """Returns data for training and evaluation, with one number and one tensor without rows."""
    whole = {"scale": np.array(2, np.float32), "names": np.zeros((0, 3), np.int32)}
    return {"train.x": rows(), "test.x": rows()[:5], **whole, **changed}


def known(folder: Path, tensors: dict[str, Array]) -> dict[str, Fingerprint]:
    path = folder / "data.safetensors"
    save_file(tensors, path)
    return {each.tensor: each for each in fingerprints(match_data(open_data(path), DEMAND, path))}


@pytest.mark.parametrize("is_large", [False, True])
def test_a_run_is_known_by_all_that_it_is_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    """Of what is too large to be looked at before, some rows tell, and the number of them."""
    if is_large:
        monkeypatch.setattr(datasets, "READ_FIRST", 1)
    before = known(tmp_path, data())
    assert list(before) == [
        f"{split}.{name}" for split in ("train", "test") for name in ("x", "scale", "names")
    ]
    assert {name: each.examples for name, each in before.items() if name.endswith(".x")} == {
        "train.x": ROWS, "test.x": 5,
    }  # fmt: skip
    spoilt, last = rows(), rows()
    spoilt[1] += 1
    last[-1] += 1
    for changed, names in (
        ({}, set[str]()),
        ({"train.x": spoilt}, set[str]() if is_large else {"train.x"}),
        ({"train.x": last}, {"train.x"}),
        ({"train.x": rows()[:-1]}, {"train.x", "train.scale", "train.names"}),
        ({"test.x": rows()[1:6]}, {"test.x"}),
        ({"scale": np.array(3, np.float32)}, {"train.scale", "test.scale"}),
    ):
        now = known(tmp_path, data(**changed))
        assert {name for name, each in now.items() if each != before[name]} == names


class Known(RowSource):
    """Rows that say what they are known by, and of which none is to be looked at."""

    shape = (3, 2)
    dtype = np.dtype(np.float32)

    @property
    def digest(self) -> str:
        return "known"

    def __getitem__(self, rows: Rows) -> Array:
        raise AssertionError(rows)


@pytest.mark.parametrize("is_verified", [True, False])
def test_what_says_what_it_is_known_by_is_not_read(*, is_verified: bool) -> None:
    tensor = StoredTensor(Path("rows"), "rows", "f32", Known())
    split = StoredSplit({"x": Feed(tensor, DType.F32, 1, is_verified=is_verified)}, 3)
    (found,) = fingerprints(Dataset(Path("rows"), split, None))
    assert found == Fingerprint(tensor="train.x", type="f32[3, 2]", examples=3, digest="known")


def test_of_tensors_that_differ_each_is_told_as_it_was_and_as_it_is() -> None:
    """One that is only there now or was only there before has nothing on the other side."""
    one, other = (
        Fingerprint(tensor=name, type="f32[3]", examples=3, digest=name * 16) for name in "xy"
    )
    more = one.model_copy(update={"examples": 4})
    assert [*changes((one, other), (one, other))] == []
    assert [*changes((one, other), (more, other))] == [("x", str(one), str(more))]
    assert [*changes((one,), (one, other))] == [("y", "", str(other))]
    assert [*changes((one, other), (other,))] == [("x", str(one), "")]
    assert str(one) == "f32[3], 3 examples, xxxxxxxxxxxx"
