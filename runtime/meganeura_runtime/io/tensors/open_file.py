"""A file whose bytes are read on demand, and which must not change meanwhile.

Nothing is mapped: an access to a mapped file that was truncated ends the process with SIGBUS,
while a short read is an error message.
"""

import os
from pathlib import Path
from threading import Lock
from weakref import finalize

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.regular_files import descriptor_of
from meganeura_runtime.io.files.file_problems import UnreadableFile


class OpenFile:
    """A regular file, open until it is no longer used, which must not change meanwhile.

    Raises `OSError` where it cannot be opened. Any thread may read from it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = descriptor_of(path)
        finalize(self, os.close, self._descriptor)
        self._opened = os.fstat(self._descriptor)
        self._seeking = Lock()

    @property
    def size(self) -> int:
        """Bytes, when it was opened."""
        return self._opened.st_size

    def fill(self, memory: memoryview, offset: int) -> None:
        """Read as many bytes as there is memory; raises `ProblemError` where they are not there."""
        try:
            while memory:
                count = self._read(memory, offset)
                if not count:
                    raise self._changed()
                memory, offset = memory[count:], offset + count
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None

    def _read(self, memory: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [memory], offset)
        with self._seeking:  # Windows has no such call
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            content = os.read(self._descriptor, len(memory))
        memory[: len(content)] = content
        return len(content)

    def read(self, offset: int, size: int) -> bytes:
        """Some bytes; raises `ProblemError` where they are not there."""
        content = bytearray(size)
        self.fill(memoryview(content), offset)
        return bytes(content)

    def require_unchanged(self) -> None:
        """Raise `ProblemError` if the file was written to since it was opened."""
        now = os.fstat(self._descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._opened.st_size, self._opened.st_mtime_ns):
            raise self._changed()

    def _changed(self) -> ProblemError:
        now = os.fstat(self._descriptor).st_size
        if now == self.size:
            return self._unreadable("it was written to while it was in use")
        return self._unreadable(
            f"it had {self.size:,} bytes when it was opened, and has {now:,} now"
        )

    def _unreadable(self, reason: str) -> ProblemError:
        return ProblemError(UnreadableFile(self.path, reason))
