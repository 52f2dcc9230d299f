"""Processes that decode files, and the threads that wait for them.

Each thread has its own process and hands it one file after the other. The array of a file goes
where its number in the batch says: which process made it, and when, makes no difference.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from threading import Lock, local
from typing import BinaryIO, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.data.decode_worker import DONE
from meganeura_runtime.io.data.decoders import Decoder, decoder_text
from meganeura_runtime.io.data.folder_problems import WorkerDied
from meganeura_runtime.io.tensors.file_array import bytes_of
from meganeura_runtime.support.messages import write_message

RUN = 4
"""Files that a thread takes at a time: enough to ask for the next while one is decoded."""


class DecodePool:
    """So many processes with one decoder; without any, the threads that ask decode."""

    def __init__(self, decoder: Decoder, workers: int) -> None:
        self._decoder = decoder
        self._own = local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._starting = Lock()
        self._threads: ThreadPoolExecutor | None = None
        if workers:
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")
            finalize(self, _end, self._threads, self._processes)

    def decode(self, paths: Sequence[Path]) -> NDArray[np.float32]:
        """The arrays of some files, stacked in their order; raises `ProblemError`."""
        found = np.empty((len(paths), *self._decoder.shape), np.float32)
        if self._threads is None:
            for number, path in enumerate(paths):
                found[number] = self._decoder.decode(path)
            return found
        begun = [
            self._threads.submit(self._fill, found[at : at + RUN], paths[at : at + RUN])
            for at in range(0, len(paths), RUN)
        ]
        for each in begun:
            each.result()
        return found

    def _fill(self, found: NDArray[np.float32], paths: Sequence[Path]) -> None:
        """Have the process of this thread decode some files."""
        process = self._process()
        given, answers = _pipes(process)
        try:
            for path in paths:
                write_message(given, os.fsencode(path))
            given.flush()
            done = [_is_answered(answers, array) for array in found]
        except (OSError, EOFError):
            self._own.process = None
            raise ProblemError(WorkerDied(process.wait(), str(paths[0]))) from None
        for number in np.flatnonzero(np.logical_not(done)).tolist():
            found[number] = self._decoder.decode(paths[number])  # which says what is wrong

    def _process(self) -> subprocess.Popen[bytes]:
        """The process of this thread, started when it is first needed."""
        found = cast("subprocess.Popen[bytes] | None", getattr(self._own, "process", None))
        if found is None:
            found = _started(self._decoder)
            with self._starting:
                self._processes.append(found)
            self._own.process = found
        return found


def _started(decoder: Decoder) -> subprocess.Popen[bytes]:
    """A new process that has its decoder."""
    module = "meganeura_runtime.io.data.decode_worker"
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for the process that asks
    )
    given, answers = _pipes(process)
    with suppress(ImportError, AttributeError, OSError):
        _widen(answers)
    write_message(given, decoder_text(decoder).encode())
    given.flush()
    return process


def _widen(pipe: BinaryIO) -> None:
    """Let a pipe hold an image, where the system can: fewer turns of two processes."""
    import fcntl  # noqa: PLC0415 - Windows has none

    fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[BinaryIO, BufferedReader]:
    assert process.stdin is not None
    assert process.stdout is not None
    return cast("BinaryIO", process.stdin), cast("BufferedReader", process.stdout)


def _is_answered(answers: BufferedReader, array: NDArray[np.float32]) -> bool:
    """Take in the elements of one file, if there are any; raises `EOFError` at an end."""
    how = answers.read(1)
    if not how:
        raise EOFError
    if how != DONE:
        return False
    memory = bytes_of(array)
    if answers.readinto(memory) != len(memory):
        raise EOFError
    return True


def _end(threads: ThreadPoolExecutor, processes: list[subprocess.Popen[bytes]]) -> None:
    """Let the threads finish what they are at, and the processes end."""
    threads.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
        for pipe in _pipes(process):
            with suppress(OSError):
                pipe.close()
        process.wait()
