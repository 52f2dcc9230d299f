"""Checksums of files of tensors, and damage that they find."""

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from meganeura_runtime.io.files.file_problems import DamagedFile
from meganeura_runtime.io.tensors.checksums import KEY, MARK
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from tests.runtime.io.tensors.refusals import refused


def damaged(path: Path, at: int) -> DamagedFile:
    """Returns the error about a file one byte of which is changed."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    problem = refused(lambda: open_tensors(path))
    assert isinstance(problem, DamagedFile)
    return problem


LONG = {"long": np.zeros((3 << 20) + 5, np.uint8), "short": np.ones(3, np.float32)}


@pytest.mark.parametrize("piece", [0, 1, 2, 3])
def test_damage_is_named(tmp_path: Path, piece: int) -> None:
    path = tmp_path / "some.safetensors"
    write_tensors(path, LONG, {})
    end = path.stat().st_size
    assert damaged(path, end - 1 - (piece << 20)).damaged == "`long`"
    write_tensors(path, LONG, {})
    assert damaged(path, end - ((3 << 20) + 5) - 1).damaged == "`short`"


def test_pieces_that_changed_places_are_damage(tmp_path: Path) -> None:
    path, piece = tmp_path / "some.safetensors", 1 << 20
    write_tensors(path, {"long": np.repeat(np.arange(3, dtype=np.uint8), piece)}, {})
    content = path.read_bytes()
    start = len(content) - 3 * piece
    first, second, third = (content[start + n * piece :][:piece] for n in range(3))
    path.write_bytes(content[:start] + second + first + third)
    problem = refused(lambda: open_tensors(path))
    assert isinstance(problem, DamagedFile)
    assert problem.damaged == "`long`"


@pytest.mark.parametrize(
    "text", [b"meganeura.checksums", b"meganeura-crc32", b'"who":"', b'"test"', b'"short"']
)
def test_damage_of_the_header_is_told(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "some.safetensors"
    write_tensors(
        path, {"short": np.ones((1, 3), np.float16), "three": np.ones(3)}, {"who": "test"}
    )
    problem = damaged(path, path.read_bytes().index(text) + 1)
    assert problem.damaged == "its header"


def test_a_header_of_two_pieces_of_checksums_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    save_file({}, path, {KEY: MARK})
    assert isinstance(refused(lambda: open_tensors(path)), DamagedFile)
    save_file({}, path, {"other": f"{MARK} 00000000"})
    assert isinstance(refused(lambda: open_tensors(path)), DamagedFile)
    for more, is_whole in (({"other": "text"}, True), ({"other": f"{MARK} of another"}, False)):
        write_tensors(path, {}, more)
        if is_whole:
            assert open_tensors(path) == ({}, more)
        else:
            assert isinstance(refused(lambda: open_tensors(path)), DamagedFile)


def test_a_file_that_others_wrote_again_is_whole(tmp_path: Path) -> None:
    """As long as they have kept what it holds: the order of a header says nothing."""
    path, again = tmp_path / "some.safetensors", tmp_path / "again.safetensors"
    write_tensors(path, {"b": np.ones(3, np.float32), "a": np.ones(2, np.int64)}, {"who": "test"})
    with safe_open(path, "np") as content:
        metadata = content.metadata()
    save_file(load_file(path), again, metadata)
    assert open_tensors(again)[1] == {"who": "test"}


def test_the_same_tensors_are_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": np.ones(3, np.float32), "a": np.ones(2, np.int64), "c": np.ones(1, np.float16)}
    metadata = {"train": "fit", "format": "pt", "step": "3", "more": "yes"}
    write_tensors(tmp_path / "one", tensors, metadata)
    write_tensors(tmp_path / "two", dict(sorted(tensors.items())), dict(sorted(metadata.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
