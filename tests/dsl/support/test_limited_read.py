"""Files are read up to a length, which they may just have."""

from pathlib import Path

import pytest

from meganeura_dsl.support.limited_read import MEBIBYTE, TooLongError, read_bytes


def test_a_file_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"a" * MEBIBYTE)
    assert len(read_bytes(path, 1)) == MEBIBYTE
    path.write_bytes(b"a" * (MEBIBYTE + 1))
    with pytest.raises(TooLongError, match="more than 1 MiB"):
        read_bytes(path, 1)
