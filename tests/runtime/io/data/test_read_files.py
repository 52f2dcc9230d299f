"""Small files of each format are read, or refused, as `read_files.txt` says."""

from tests.runtime.io.data.read_files import FILE, described


def test_files_are_read_as_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()
