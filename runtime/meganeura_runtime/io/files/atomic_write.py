"""Atomic writes: to a temporary file in the same folder, which is then renamed."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A path to write to; when the block ends well, the file takes the place of `path`.

    The content reaches the disk before the name does, and the name before this returns, so that
    a crash at any moment leaves the old file or the new one. Raises `ProblemError`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.touch()  # as the umask says, which libraries that write the file may not heed
        mode = S_IMODE(partial.stat().st_mode)
        yield partial
        partial.chmod(mode)
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
    finally:
        with suppress(OSError):  # it is not there, or was said above to be beyond us
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no such call for folders, and renames durably
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
