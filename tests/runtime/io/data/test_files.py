"""Data files: where they are looked for, and NumPy's formats read without trust."""

import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data import numpy_files
from meganeura_runtime.io.data.data_files import find_data, open_data
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.stored_tensor import Array, read

ARRAYS: dict[str, Array] = {
    "train.image": np.arange(12, dtype=np.float64).reshape(3, 2, 2),
    "train.label": np.array([2, 0, 1], np.int64),
    "flag": np.array([True, False]),
}


def as_safetensors(folder: Path) -> Path:
    save_file(ARRAYS, folder / "data.safetensors")
    return folder / "data.safetensors"


def as_npz(folder: Path) -> Path:
    np.savez(folder / "data.npz", allow_pickle=False, **ARRAYS)
    return folder / "data.npz"


def as_compressed_npz(folder: Path) -> Path:
    np.savez_compressed(folder / "data.npz", allow_pickle=False, **ARRAYS)
    return folder / "data.npz"


def as_npy_files(folder: Path) -> Path:
    for name, values in ARRAYS.items():
        np.save(folder / f"{name}.npy", values)
    return folder


@pytest.mark.parametrize("write", [as_safetensors, as_npz, as_compressed_npz, as_npy_files])
def test_all_formats_hold_the_same(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    tensors = open_data(write(tmp_path))
    assert sorted(tensors) == sorted(ARRAYS)
    np.testing.assert_array_equal(
        read(tensors["train.image"], DType.F32), ARRAYS["train.image"].astype(np.float32)
    )
    np.testing.assert_array_equal(read(tensors["train.label"], DType.I32), [2, 0, 1])
    np.testing.assert_array_equal(read(tensors["flag"], DType.BOOL), [True, False])


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(2, 3, order="F"),
        np.arange(9, dtype=np.float32).reshape(3, 3, order="F"),
        np.zeros((0, 3), np.float32),
        np.array(5, np.float32),
    ],
    ids=["big-endian", "columns first", "square, columns first", "empty", "scalar"],
)
def test_unusual_arrays_are_read(tmp_path: Path, values: Array) -> None:
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", x=values)
    for file in ("x.npy", "x.npz"):
        np.testing.assert_array_equal(
            read(open_data(tmp_path / file)["x"], DType.F32), values.astype(np.float32)
        )


def npy(shape: tuple[int, ...], data: bytes, dtype: str = "<f4") -> bytes:
    file = BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + data


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "EOF"),
        (b"not an array", "magic string"),
        (npy((10**18,), b"1234"), "claims 4,000,000,000,000,000,000 bytes, and 4 follow"),
        (npy((2**40, 2**40), b""), "claims"),
        (npy((2,), b"1234"), "claims 8 bytes, and 4 follow"),
        (npy((1,), b"12345678", "|O"), "Python objects"),
        (npy((1,), b"12345678", "<c8"), "complex64"),
        (npy((-1,), b"1234"), "claims the shape [-1]"),
    ],
)
def test_a_hostile_array_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for file in ("x.npy", "x.npz"):
        with pytest.raises(ProblemError) as caught:
            open_data(tmp_path / file)
        problem = caught.value.problem
        assert isinstance(problem, UnreadableFile)
        assert reason in problem.reason


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = as_compressed_npz(tmp_path)
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ProblemError, match="E0530"):
        open_data(path)
    path.write_bytes(content[:90])
    with pytest.raises(ProblemError, match="E0530"):
        open_data(path)


def test_an_archive_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    """Both sizes of its last member, as the directory at its end says them."""
    path = as_npz(tmp_path)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\1\2")
    content[entry + 20 : entry + 28] = (1 << 20).to_bytes(4, "little") * 2
    path.write_bytes(content)
    with pytest.raises(ProblemError) as caught:
        open_data(path)
    assert isinstance(caught.value.problem, UnreadableFile)


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_files, "LARGEST_UNPACKED", 100)
    with pytest.raises(ProblemError) as caught:
        open_data(as_npz(tmp_path))
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "unpacks to" in caught.value.problem.reason
    with ZipFile(tmp_path / "data.npz") as archive:
        size = sum(member.file_size for member in archive.infolist())
    monkeypatch.setattr(numpy_files, "LARGEST_UNPACKED", size)
    open_data(tmp_path / "data.npz")
    monkeypatch.setattr(numpy_files, "LARGEST_UNPACKED", size - 1)
    with pytest.raises(ProblemError, match="E0530"):
        open_data(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("it is short\nby 3 bytes"), "it is short"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "No such file"), "No such file"),
        (OSError("lost"), "lost"),
    ],
)
def test_a_reason_is_one_line_and_never_empty(error: Exception, reason: str) -> None:
    assert numpy_files._reason(error) == reason


def test_an_embedded_data_set_is_found_by_name(tmp_path: Path) -> None:
    tensors = open_data(find_data("digits", tmp_path))
    assert {"train.image", "train.label", "test.image", "test.label"} <= set(tensors)


def test_a_path_starts_at_its_folder(tmp_path: Path) -> None:
    assert find_data("data.safetensors", as_safetensors(tmp_path).parent) == (
        tmp_path / "data.safetensors"
    )


def test_a_file_whose_name_looks_like_a_glob_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rows[1].npy"
    np.save(path, np.arange(3))
    assert find_data(path.name, tmp_path) == path
    assert set(open_data(path)) == {"rows[1]"}


def test_data_that_is_not_there_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        find_data("digit", tmp_path)
    advice = caught.value.problem.report().help
    assert advice is not None
    assert "`digits`" in advice.text


def test_an_unknown_suffix_is_told(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(ProblemError, match="E0521"):
        open_data(tmp_path / "data.csv")
