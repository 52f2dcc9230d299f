"""A folder in the hands of one process: a lock that the system gives back when the process dies."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import sleep

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite

LOCK = ".lock"
"""The file that is locked; it holds the number of the process that has the lock."""
PAUSE = 0.2
"""Seconds between two attempts to lock a folder that is waited for."""


class HeldError(Exception):
    """Another process, or another part of this one, has the lock of a folder."""

    def __init__(self, process: int | None) -> None:
        super().__init__(process)
        self.process = process
        """The number of that process; `None` if it has not written it yet."""


if sys.platform == "win32":
    import msvcrt

    BEYOND = 1 << 30
    """The byte that is locked: past the end, as one that is locked cannot be read."""

    def _locked(descriptor: int) -> bool:
        """Lock a file, unless it is locked."""
        os.lseek(descriptor, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _locked(descriptor: int) -> bool:
        """Lock a file, unless it is locked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold a folder against other processes, and other runs of this one.

    Raises `HeldError` where another has it, `ProblemError` where it cannot be locked at all.
    """
    path = folder / LOCK
    try:
        descriptor = _acquired(path)
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open; one that is left is no lock
            path.unlink()
        os.close(descriptor)


@contextmanager
def locked_in_turn(folder: Path, wait: Callable[[int | None], None]) -> Generator[None]:
    """Hold a folder as soon as nobody else does; `wait` gets the number of the process, once.

    Raises `ProblemError` where it cannot be locked at all.
    """
    with ExitStack() as held:
        is_first = True
        while True:
            try:
                held.enter_context(locked(folder))
            except HeldError as error:
                if is_first:
                    wait(error.process)
                is_first = False
                sleep(PAUSE)
            else:
                break
        yield


def is_locked(folder: Path) -> bool:
    """Returns True if a process holds a folder."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:  # no run has it, or it is not ours to write to
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _acquired(path: Path) -> int:
    """The locked file, which is the one of that name: its last holder may just have removed it."""
    with ExitStack() as opened:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            opened.callback(os.close, descriptor)
            if not _locked(descriptor):
                raise HeldError(_holder(descriptor))
            if _is_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                opened.pop_all()
                return descriptor
            opened.close()


def _is_at(descriptor: int, path: Path) -> bool:
    """Returns True if the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> int | None:
    """The process that has the lock, if it has already said so."""
    written = os.read(descriptor, 32)
    return int(written) if written.isdigit() else None
