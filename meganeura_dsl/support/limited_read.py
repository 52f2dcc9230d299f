"""Reads whole files of untrusted origin, up to a limit of bytes."""

from pathlib import Path

from meganeura_dsl.support.regular_files import opened

MEBIBYTE = 1 << 20


class TooLongError(ValueError):
    """A file has more bytes than the limit of its kind."""


def read_bytes(path: Path, mebibytes: int) -> bytes:
    """The content of a file of at most so many MiB; raises `TooLongError`, and `OSError`."""
    most = mebibytes * MEBIBYTE
    with opened(path) as file:
        # Asked first, as a read of so many bytes takes their memory.
        content = file.read(most + 1) if path.stat().st_size <= most else None
    if content is None or len(content) > most:
        raise TooLongError(f"it has more than {mebibytes} MiB")
    return content
