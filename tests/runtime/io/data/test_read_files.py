"""Small files of each format are read, or refused, as `read_files.txt` says."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.data.data_files import find_data, open_data
from tests.runtime.io.data.read_files import FILE, described


def test_files_are_read_as_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()


@pytest.mark.parametrize("shape", ["(" * 3000 + ")" * 3000, "-" * 3000 + "1", "[" * 90 + "]" * 90])
def test_a_header_that_is_nested_deeply_is_refused(shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    length = len(header).to_bytes(2, "little")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + length + header)
    with pytest.raises(ProblemError, match="cannot read"):
        open_data(tmp_path / "x.npy")


def test_a_path_that_no_file_can_have_is_of_no_file(tmp_path: Path) -> None:
    for written in ("a\0b.npy", "a" * 5000):
        with pytest.raises(ProblemError, match="no"):
            find_data(written, tmp_path)
