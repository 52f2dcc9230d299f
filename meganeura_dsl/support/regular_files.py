"""Opens untrusted paths if they are regular files: no pipe, device or socket, which may block."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class NotAFileError(OSError):
    """The path is not a regular file; the text says what it is."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """A file to read from, closed afterwards; raises `OSError` as `descriptor_of` does."""
    with os.fdopen(descriptor_of(path), "rb") as file:
        yield file


def descriptor_of(path: Path) -> int:
    """A descriptor to read a regular file by; raises `OSError` for anything else.

    A pipe could keep its reader waiting for ever, and a device need not have an end. Nothing is
    opened before it is known to be neither, and the check is repeated on the open file, as another
    file may have replaced it meanwhile.
    """
    _require_regular(path.stat(), path)
    nonblocking = getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | nonblocking)
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
    raise NotAFileError(EINVAL, f"this is {kind}", str(path))
