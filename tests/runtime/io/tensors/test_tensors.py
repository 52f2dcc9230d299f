"""Files of tensors: what is read, how it becomes a graph's type, and what is refused."""

import json
import os
from pathlib import Path
from stat import S_ISDIR
from time import process_time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.files import atomic_write
from meganeura_runtime.io.files.atomic_write import replacing, write_text
from meganeura_runtime.io.files.file_problems import NotFinite, OutOfRange, UnreadableFile
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, read_tensors, write_tensors
from meganeura_runtime.io.tensors.shape_mismatch import claimed_elements, transposed
from meganeura_runtime.io.tensors.stored_tensor import (
    NUMPY,
    Array,
    StoredTensor,
    read,
    read_verified,
    verify,
)
from tests.runtime.io.tensors.refusals import refused


def stored(values: Array, stored: str) -> StoredTensor:
    return StoredTensor(Path("data.safetensors"), "x", stored, values)


# --- reading -------------------------------------------------------------------------------------


def test_tensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(7, dtype=np.int64),
        "c": np.zeros((0, 4), dtype=np.float16),
        "d": np.array([True, False]),
        "e": np.array([255, 0, 3], dtype=np.uint8),
    }
    save_file(tensors, path, {"who": "test"})
    found, metadata = open_tensors(path)
    assert metadata == {"who": "test"}
    assert {name: str(each) for name, each in found.items()} == {
        "a": "f32[2, 3]",
        "b": "i64[]",
        "c": "f16[0, 4]",
        "d": "bool[2]",
        "e": "u8[3]",
    }
    np.testing.assert_array_equal(read(found["a"], DType.F32), tensors["a"])
    assert read(found["b"], DType.I32) == 7
    np.testing.assert_array_equal(read(found["d"], DType.BOOL), tensors["d"])


def test_what_is_written_is_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    tensors = {
        "scalar": np.array(3, dtype=np.int64),
        "across": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    }
    write_tensors(path, tensors, {"who": "test"})
    loaded = load_file(path)
    assert loaded["scalar"].shape == ()
    np.testing.assert_array_equal(loaded["across"], tensors["across"])


@pytest.mark.parametrize("name", ["größe.weight", "重み", "\U0001d6fc", 'a"b', "a\\b", "a b", "\n"])
def test_names_and_metadata_may_be_any_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / "some.safetensors"
    tensors = {f"{name}{i}": np.arange(3, dtype=np.float32) + i for i in range(3)}
    write_tensors(path, tensors, {name: f"{name}!", "who": "test"})
    found, metadata = open_tensors(path)
    assert metadata == {name: f"{name}!", "who": "test"}
    others = load_file(path)
    assert found.keys() == others.keys() == tensors.keys()
    for each, values in tensors.items():
        np.testing.assert_array_equal(read(found[each], DType.F32), values)
        np.testing.assert_array_equal(others[each], values)


def test_bf16_is_read_exactly(tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"
    bits = np.array([0x3F80, 0xC020, 0x0001, 0x7F7F], np.uint16)
    path.write_bytes(header({"x": entry([4], 0, 8, "BF16")}, bits.tobytes()))
    found = read_verified(read_tensors(path)["x"], DType.F32)
    # one sign, eight exponent and seven fraction bits; the third is the smallest above zero
    np.testing.assert_array_equal(found, [1, -2.5, 2.0**-133, (2 - 2.0**-7) * 2.0**127])


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        ("u8", np.array([0, 255], np.uint8), DType.F32),
        ("u8", np.array([0, 255], np.uint8), DType.I32),
        ("i64", np.array([-(2**31), 2**31 - 1]), DType.I32),
        ("u64", np.array([2**32 - 1], np.uint64), DType.U32),
        ("i64", np.array([2**24, -(2**24)]), DType.F32),
        ("i32", np.array([2048], np.int32), DType.F16),
        ("f64", np.array([0.5, 2.0**126]), DType.F32),
        ("bool", np.array([0, 1], np.uint8), DType.F32),
        ("u8", np.array([0, 1], np.uint8), DType.BOOL),
    ],
)
def test_a_value_that_fits_is_kept(kind: str, values: Array, dtype: DType) -> None:
    found = read_verified(stored(values, kind), dtype)
    assert found.dtype == NUMPY[dtype]
    np.testing.assert_array_equal(found.astype(values.dtype), values)


@pytest.mark.parametrize(
    ("kind", "value", "dtype"),
    [
        ("i64", np.int64(2**31), DType.I32),
        ("i64", np.int64(-1), DType.U32),
        ("i64", np.int64(2**32), DType.I32),
        ("i8", np.int8(-1), DType.U32),
        ("i32", np.int32(-1), DType.U32),
        ("u64", np.uint64(2**64 - 1), DType.I32),
        ("u32", np.uint32(2**31), DType.I32),
        ("i64", np.int64(2**24 + 1), DType.F32),
        ("i64", np.int64(2**63 - 1), DType.F32),
        ("i32", np.int32(2049), DType.F16),
        ("f64", np.float64(1e39), DType.F32),
        ("f32", np.float32(65520), DType.F16),
        ("u8", np.uint8(2), DType.BOOL),
        ("bool", np.uint8(2), DType.BOOL),
        ("bool", np.uint8(7), DType.F32),
        ("bool", np.uint8(255), DType.I32),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_index(
    kind: str, value: np.generic, dtype: DType
) -> None:
    values = np.zeros((5, 3), value.dtype)
    values[3, 1] = value
    problem = refused(lambda: verify(stored(values, kind), dtype))
    assert isinstance(problem, OutOfRange)
    assert problem.index == (3, 1)
    assert problem.value == str(value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_index(value: float) -> None:
    values = np.zeros((5, 3), np.float32)
    values[4, 2] = value
    problem = refused(lambda: verify(stored(values, "f32"), DType.F32))
    assert isinstance(problem, NotFinite)
    assert (problem.index, problem.value) == ((4, 2), str(value))


def test_the_index_counts_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meganeura_runtime.io.tensors.stored_tensor.CHUNK_BYTES", 24)
    values = np.zeros((7, 3), np.float32)
    values[5, 2] = np.nan
    problem = refused(lambda: verify(stored(values, "f32"), DType.F32))
    assert isinstance(problem, NotFinite)
    assert problem.index == (5, 2)


def test_a_scalar_that_is_not_finite_has_an_empty_index() -> None:
    problem = refused(lambda: verify(stored(np.array(np.nan, np.float32), "f32"), DType.F32))
    assert isinstance(problem, NotFinite)
    assert problem.index == ()


def test_some_rows_can_be_read() -> None:
    tensor = stored(np.arange(12, dtype=np.uint8).reshape(6, 2), "u8")
    rows = read(tensor, DType.F32, np.array([4, 0]))
    np.testing.assert_array_equal(rows, np.array([[8, 9], [0, 1]], np.float32))


# --- distrust ------------------------------------------------------------------------------------


def header(entries: object, data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape: list[object], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "empty": (b"", "it is empty"),
    "seven bytes": (b"1234567", "the length of its header alone takes 8"),
    "a length beyond the file": ((9).to_bytes(8, "little") + b"{}", "cut short"),
    "an absurd length": ((2**63).to_bytes(8, "little") + b"{}", "this is no safetensors file"),
    "not JSON": ((4).to_bytes(8, "little") + b"{{{{", "not JSON"),
    "not UTF-8": ((2).to_bytes(8, "little") + b"\xff\xfe", "not JSON"),
    "a nesting bomb": ((100_000).to_bytes(8, "little") + b"[" * 100_000, "not JSON"),
    "an enormous number": (
        (5001).to_bytes(8, "little") + b"[" + b"9" * 5000,
        "a number of 5,000 digits",
    ),
    "a number of 20 digits": (header({"x": entry([10**19], 0, 4)}, b"1234"), "impossible size"),
    "a number of 21 digits": (header({"x": entry([10**20], 0, 4)}, b"1234"), "of 21 digits"),
    "a shape that is a number": (header({"x": {**entry([], 0, 4), "shape": 1}}), "no sizes"),
    "a shape that is nothing": (header({"x": {**entry([], 0, 4), "shape": None}}), "no sizes"),
    "a header of the longest length": ((32 << 20).to_bytes(8, "little") + b"{}", "cut short"),
    "a header longer than any": (((32 << 20) + 1).to_bytes(8, "little") + b"{}", "no safetensors"),
    "a list": (header([]), "not a JSON object"),
    "an entry that is a list": (header({"x": []}), "not a JSON object"),
    "a name twice": (
        (len(b'{"x":{},"x":{}}')).to_bytes(8, "little") + b'{"x":{},"x":{}}',
        "names `x` twice",
    ),
    "metadata that is a number": (header({"__metadata__": {"a": 1}}), "other than texts"),
    "no offsets": (header({"x": {"dtype": "F32", "shape": []}}), "exactly a dtype"),
    "10^18 elements": (header({"x": entry([10**18], 0, 4)}, b"1234"), "claims 4,000,000,000,0"),
    "an overflowing product": (header({"x": entry([2**40, 2**40], 0, 0)}), "claims"),
    "sizes of four thousand digits": (
        header({"x": entry([int("9" * 4000)] * 2, 0, 4)}, b"1234"),
        "a number of 4,000 digits",
    ),
    "60,000 axes": (header({"x": entry([10**18] * 60_000, 0, 4)}, b"1234"), "60,000 axes"),
    "three million lists": (header({"x": [[]] * 3_000_000}), "not JSON"),
    "an impossible empty shape": (header({"x": entry([2**62, 2**62, 0], 0, 0)}), "impossible"),
    "a negative size": (header({"x": entry([-1], 0, 4)}, b"1234"), "no sizes"),
    "a size that is a truth": (header({"x": entry([True], 0, 4)}, b"1234"), "no sizes"),
    "backward offsets": (header({"x": entry([1], 4, 0)}, b"1234"), "no place"),
    "an unknown type": (header({"x": entry([1], 0, 1, "F8_E4M3")}, b"1"), "not read here"),
    "truncated data": (header({"x": entry([2], 0, 8)}, b"1234"), "it was cut short"),
    "overlapping tensors": (
        header({"x": entry([1], 0, 4), "y": entry([1], 2, 6)}, b"123456"),
        "`y` overlaps the tensor before it by 2 bytes",
    ),
    "a hole": (header({"x": entry([1], 2, 6)}, b"123456"), "2 bytes before `x`"),
    "bytes left over": (header({"x": entry([1], 0, 4)}, b"123456"), "2 bytes at its end"),
}


@pytest.mark.parametrize(("content", "reason"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    problem = refused(lambda: read_tensors(path))
    assert isinstance(problem, UnreadableFile)
    assert reason in problem.reason


@pytest.mark.parametrize("length", [1 << 18, (1 << 18) + 8])
def test_a_long_header_has_eight_bytes_for_each_bracket(tmp_path: Path, length: int) -> None:
    path = tmp_path / "dense.safetensors"
    for lists, reason in (
        (length // 8 - 2, "the entry of `x` has"),  # beside the two lists there have to be
        (length // 8 - 1, "its header is not JSON that"),
    ):
        text = f'{{"x": {{"dtype": "F32", "data_offsets": [0, 0], "shape": [{"[]," * lists}0]}}}}'
        path.write_bytes(length.to_bytes(8, "little") + text.ljust(length).encode())
        problem = refused(lambda: read_tensors(path))
        assert isinstance(problem, UnreadableFile)
        assert problem.reason.startswith(reason), lists


@pytest.mark.parametrize("name", ["sizes of four thousand digits", "60,000 axes"])
def test_a_header_is_refused_no_slower_than_it_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(HOSTILE[name][0])
    began = process_time()
    refused(lambda: read_tensors(path))
    assert process_time() - began < 1.0  # the product of 60,000 sizes alone took 24 s


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole.safetensors"
    write_tensors(whole, {"a": np.ones((3, 5), np.float32), "b": np.ones(4, np.int64)}, {})
    content = whole.read_bytes()
    for length in range(len(content)):
        whole.write_bytes(content[:length])
        assert isinstance(refused(lambda: read_tensors(whole)), UnreadableFile)


@given(st.binary(max_size=200), st.binary(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_do_anything_but_be_read_or_refused(
    tmp_path: Path, text: bytes, data: bytes
) -> None:
    path = tmp_path / "any.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    try:
        read_tensors(path)
    except ProblemError as error:
        assert isinstance(error.problem, UnreadableFile)  # noqa: PT017 - either is fine


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="E0533"):
        read_tensors(tmp_path / "no.safetensors")
    with pytest.raises(ProblemError, match="E0530"):
        read_tensors(tmp_path)


# --- writing -------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note.txt"
    write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write.os, "fsync", full)
    with pytest.raises(ProblemError, match="E0534"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_is_on_the_disk_before_its_name_and_that_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sync = tmp_path / "note.txt", os.fsync
    synced: list[tuple[bool, bool]] = []

    def noted(descriptor: int) -> None:
        synced.append((S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        sync(descriptor)

    monkeypatch.setattr(atomic_write.os, "fsync", noted)
    write_text(path, "größe")
    assert synced == [(False, False), (True, True)]
    assert path.read_bytes() == "größe".encode()


def test_a_write_that_is_interrupted_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="E0534"):
        write_tensors(tmp_path / "no" / "x.safetensors", {"a": np.ones(1, np.float32)}, {})


# --- shapes --------------------------------------------------------------------------------------


def test_a_transposition_is_recognised() -> None:
    assert "[1, 0]" in transposed((3, 5), (5, 3))
    assert "[0, 2, 3, 1]" in transposed((3, 5, 7), (5, 7, 3), offset=1)
    assert transposed((3, 5), (3, 5)) == ""
    assert transposed((3, 5), (15,)) == ""
    axes = tuple(range(2, 9))
    assert "[5, 4, 3, 2, 1, 0]" in transposed(axes[:6], axes[5::-1])
    assert transposed(axes, axes[::-1]) == ""  # of 5,040 orders one is hardly meant


@pytest.mark.parametrize(
    ("shape", "elements"),
    [
        ((), 1),
        ((2, 3), 6),
        ((0, 5), 0),
        ((1,) * 64, 1),
        ((1,) * 65, None),
        ((1 << 60,), 1 << 60),
        ((1 << 59, 2), 1 << 60),
        ((1 << 60, 2), None),
        ((0, 1 << 60), 0),
        ((0, 1 << 60, 2), None),
        (((1 << 60) + 1,), None),
        ((0, (1 << 60) + 1), None),
        ((2, -1), None),
    ],
)
def test_a_shape_that_no_array_can_have_is_refused(
    shape: tuple[int, ...], elements: int | None
) -> None:
    if elements is None:
        with pytest.raises(ValueError, match="claims"):
            claimed_elements(shape)
    else:
        assert claimed_elements(shape) == elements
