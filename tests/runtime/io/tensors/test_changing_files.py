"""Files of tensors that others change while they are open."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.data.numpy_files import read_npy
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.file_array import InFile
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor, read
from tests.runtime.io.tensors.refusals import refused


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    """A file of more than one page."""
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12_000, dtype=np.float32).reshape(3000, 4))
    return path


ROWS = [slice(0, 2000), np.array([2500, 3]), slice(None)]


@pytest.mark.parametrize("rows", ROWS, ids=["a run", "scattered", "all"])
@pytest.mark.parametrize("held", [0, 1 << 20], ids=["on disk", "held"])
def test_rows_of_a_file_are_those_of_the_array(
    changing: Path, monkeypatch: pytest.MonkeyPatch, rows: slice, held: int
) -> None:
    monkeypatch.setattr("meganeura_runtime.io.tensors.file_array.HELD", held)
    tensor, whole = read_npy(changing), np.load(changing)
    for _ in range(2):
        np.testing.assert_array_equal(read(tensor, DType.F32, rows), whole[rows], strict=True)
    np.testing.assert_array_equal(tensor.bits.view(np.float32), whole)


@pytest.mark.parametrize("rows", ROWS, ids=["a run", "scattered", "all"])
def test_a_file_that_is_cut_short_while_it_is_open_is_told(changing: Path, rows: slice) -> None:
    tensor = read_npy(changing)
    os.truncate(changing, 8192)
    problem = refused(lambda: read(tensor, DType.F32, rows))
    assert isinstance(problem, UnreadableFile)
    assert problem.reason == "it had 48,128 bytes when it was opened, and has 8,192 now"


def test_a_file_that_grows_or_is_written_to_is_told(changing: Path) -> None:
    tensor = read_npy(changing)
    with changing.open("ab") as file:
        file.write(b"more")
    assert "48,132 now" in str(refused(lambda: tensor.bits).report())
    tensor = read_npy_again(changing)
    content = changing.read_bytes()
    changing.write_bytes(content)
    os.utime(changing, (0, 0))
    assert "written to while it was in use" in str(refused(lambda: tensor.bits).report())


def test_a_file_that_grows_at_the_time_it_had_is_told(changing: Path) -> None:
    tensor, before = read_npy(changing), changing.stat()
    with changing.open("ab") as file:
        file.write(b"more")
    os.utime(changing, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "48,132 now" in str(refused(lambda: tensor.bits).report())


@pytest.mark.parametrize("most", [1000, 48_128])
def test_a_system_may_read_less_than_it_is_asked_for(
    changing: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    read_some = OpenFile._read

    def less(file: OpenFile, memory: memoryview, offset: int) -> int:
        return read_some(file, memory[:most], offset)

    monkeypatch.setattr(OpenFile, "_read", less)
    np.testing.assert_array_equal(read_npy(changing).bits.view(np.float32), np.load(changing))


def read_npy_again(path: Path) -> StoredTensor:
    """The file without what was added to it."""
    os.truncate(path, 48_128)
    return read_npy(path)


def test_any_run_of_rows_is_that_of_the_array(
    changing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.io.tensors.file_array.HELD", 0)
    whole = np.load(changing)[:9]
    np.save(changing, whole)
    content = read_npy(changing).content
    for start, stop, step in product((None, 0, 3, -2), (None, 0, 8, -1), (None, 1, 2, -3)):
        rows = slice(start, stop, step)
        np.testing.assert_array_equal(content[rows].view(np.float32), whole[rows], strict=True)
    for rows in ([], [4], [4, 5, 2, 3, 4, 8]):
        numbers = np.array(rows, np.int64)
        np.testing.assert_array_equal(content[numbers].view(np.float32), whole[numbers])


@pytest.mark.parametrize("rows", [slice(3, 9), np.array([4, 3])])
def test_what_is_read_is_memory_of_its_own(changing: Path, rows: slice | np.ndarray) -> None:
    """Also of an array that is held, as it is once scattered rows were read."""
    content = read_npy(changing).content
    for _ in range(2):
        found = content[rows]
        kept = found.copy()
        found[:] = 0
        np.testing.assert_array_equal(content[rows], kept)
        content[np.array([2500, 3])]


def test_an_array_is_held_up_to_a_size(changing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spare, held in ((0, 1), (-1, 0)):
        content = read_npy(changing).content
        assert isinstance(content, InFile)
        monkeypatch.setattr("meganeura_runtime.io.tensors.file_array.HELD", 48_000 + spare)
        content[np.array([2500, 3])]
        assert len(content._held) == held


def test_a_file_that_is_replaced_is_read_as_it_was(changing: Path) -> None:
    tensor, whole = read_npy(changing), np.load(changing)
    write_text(changing, "another file")
    np.testing.assert_array_equal(tensor.bits.view(np.float32), whole)


def test_rows_are_read_where_there_is_no_call_for_it(
    changing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "preadv")
    np.testing.assert_array_equal(read(read_npy(changing), DType.F32), np.load(changing))


def test_a_row_that_is_not_there_is_an_error(
    changing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_runtime.io.tensors.file_array.HELD", 0)
    for row in (-1, 3000):
        with pytest.raises(IndexError):
            read(read_npy(changing), DType.F32, np.array([0, row]))
