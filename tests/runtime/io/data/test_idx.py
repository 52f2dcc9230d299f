"""IDX files: MNIST's names, all types, and headers that lie."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data import idx_files
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.stored_tensor import read

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
LABELS = np.array([7, 2], np.uint8)

HEADERS = {"u1": 0x08, "i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}


def idx(values: np.ndarray, dtype: str = "u1") -> bytes:
    sizes = np.array(values.shape, ">u4").tobytes()
    return bytes([0, 0, HEADERS[dtype], values.ndim]) + sizes + values.astype(dtype).tobytes()


def test_a_folder_of_mnist_has_two_splits(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES[:1])))
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(LABELS[:1]))
    (tmp_path / "README").write_text("not data")
    tensors = open_data(tmp_path)
    assert sorted(tensors) == ["test.image", "test.label", "train.image", "train.label"]
    np.testing.assert_array_equal(read(tensors["train.image"], DType.F32), IMAGES)
    np.testing.assert_array_equal(read(tensors["train.label"], DType.I32), [7, 2])
    assert tensors["test.image"].shape == (1, 3, 4)


@pytest.mark.parametrize("dtype", HEADERS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_type_is_read(tmp_path: Path, dtype: str, pack: type[bytes]) -> None:
    values = np.array([[1, -2], [3, 100]]) if dtype != "u1" else np.array([[1, 2], [3, 200]])
    path = tmp_path / ("x.idx.gz" if pack is not bytes else "x.idx")
    path.write_bytes(pack(idx(values, dtype)))
    tensor = open_data(path)["x"]
    np.testing.assert_array_equal(read(tensor, DType.F32), values)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("emnist-letters-train-images-idx3-ubyte.gz", "train.image"),
        ("t10k-labels-idx1-ubyte", "test.label"),
        ("test-labels.idx1-ubyte", "test.label"),
        ("my-train-labels-idx1", "train.label"),
        ("train-images-small-idx3-ubyte", "train-images-small"),
        ("trainimages-idx3-ubyte", "trainimages"),
        ("mytrain-images-idx3-ubyte", "mytrain-images"),
        ("valid-images-idx3-ubyte", "valid-images"),
        ("points.idx2", "points"),
        ("points.idx", "points"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert idx_files.is_idx(Path(name))
    assert idx_files.tensor_name(Path(name)) == expected


@pytest.mark.parametrize("name", ["points.npy", "idx.txt", "train.idx.npz", "index.json"])
def test_other_names_are_no_idx_files(name: str) -> None:
    assert not idx_files.is_idx(Path(name))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "starts with nothing"),
        (b"\0\0\x08", "starts with 00 00 08"),
        (b"\x89PNG....", "no IDX file"),
        (b"\0\0\x07\x01\0\0\0\0", "no IDX file"),
        (b"\0\0\x08\x00", "no IDX file"),
        (b"\0\0\x08\x03\0\0\0\x01", "ends inside its header"),
        (idx(IMAGES)[:-1], "claims 24 bytes, and 23 follow"),
        (idx(IMAGES) + b"\0", "claims 24 bytes, and more follow"),
        (b"\0\0\x08\x02" + b"\xff" * 8, "claims"),
        (b"\0\0\x0e\xff" + b"\xff" * 4 * 255, "claims"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "plain.idx").write_bytes(content)
    (tmp_path / "packed.idx.gz").write_bytes(gzip.compress(content))
    for file in ("plain.idx", "packed.idx.gz"):
        with pytest.raises(ProblemError) as caught:
            open_data(tmp_path / file)
        problem = caught.value.problem
        assert isinstance(problem, UnreadableFile)
        assert reason in problem.reason


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip at all", gzip.compress(idx(IMAGES))[:-9]],
    ids=["empty", "not gzip", "cut short"],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.idx.gz").write_bytes(content)
    with pytest.raises(ProblemError, match="E0530"):
        open_data(tmp_path / "x.idx.gz")


def test_an_archive_is_not_unpacked_beyond_what_its_header_claims(tmp_path: Path) -> None:
    bomb = idx(IMAGES) + bytes(1 << 26)
    (tmp_path / "x.idx.gz").write_bytes(gzip.compress(bomb))
    with pytest.raises(ProblemError) as caught:
        open_data(tmp_path / "x.idx.gz")
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "more follow" in caught.value.problem.reason


def test_an_archive_is_unpacked_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.idx.gz").write_bytes(gzip.compress(idx(IMAGES)))
    monkeypatch.setattr(idx_files, "LARGEST_UNPACKED", IMAGES.size)
    assert open_data(tmp_path / "x.idx.gz")["x"].shape == IMAGES.shape
    monkeypatch.setattr(idx_files, "LARGEST_UNPACKED", IMAGES.size - 1)
    with pytest.raises(ProblemError) as caught:
        open_data(tmp_path / "x.idx.gz")
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason == "it claims to unpack to 24 bytes"


def test_one_name_twice_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    with pytest.raises(ProblemError) as caught:
        open_data(tmp_path)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "holds `train.label` too" in caught.value.problem.reason


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="E0533"):
        idx_files.read_idx(tmp_path / "x.idx")
