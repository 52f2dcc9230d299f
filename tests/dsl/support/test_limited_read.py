"""Files are read up to a length, which they may just have."""

import os
from pathlib import Path

import pytest

from meganeura_dsl.support.limited_read import MEBIBYTE, TooLongError, read_bytes
from meganeura_dsl.support.regular_files import NotAFileError, descriptor_of


def test_a_file_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"a" * MEBIBYTE)
    assert len(read_bytes(path, 1)) == MEBIBYTE
    path.write_bytes(b"a" * (MEBIBYTE + 1))
    with pytest.raises(TooLongError, match="more than 1 MiB"):
        read_bytes(path, 1)


def test_a_file_that_is_replaced_by_a_pipe_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some").write_bytes(b"a")
    os.mkfifo(tmp_path / "pipe")
    before = (tmp_path / "some").stat()
    monkeypatch.setattr(Path, "stat", lambda _: before)
    with pytest.raises(NotAFileError, match="a pipe"):
        descriptor_of(tmp_path / "pipe")
    os.close(descriptor_of(tmp_path / "some"))


def test_a_file_that_grows_meanwhile_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"a")
    before = path.stat()
    path.write_bytes(b"a" * (MEBIBYTE + 1))
    monkeypatch.setattr(Path, "stat", lambda _: before)
    with pytest.raises(TooLongError, match="more than 1 MiB"):
        read_bytes(path, 1)
