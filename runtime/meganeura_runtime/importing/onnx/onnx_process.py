"""ONNX Runtime in a process of its own, which a file may crash."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Timer
from typing import BinaryIO, cast
from weakref import finalize

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.onnx_worker import unpacked, write_request
from meganeura_runtime.support.messages import messages

LONGEST = 600.0
"""Seconds of one run: what a file may ask of ONNX Runtime is not all counted beforehand."""


class OnnxFailedError(Exception):
    """ONNX Runtime refuses a model, or ended; the text says how."""


class OnnxProcess:
    """A process that is started when it is first needed, and anew where it ended."""

    def __init__(self, longest: float = LONGEST) -> None:
        self.longest = longest
        """Seconds after which a run is ended."""
        self._lock = Lock()
        self.running: tuple[int, subprocess.Popen[bytes]] | None = None
        """The process, and whose it is."""

    def run(self, path: Path, inputs: dict[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The outputs of a model; raises `OnnxFailedError`."""
        with self._lock:
            process = self._process()
            given, answers = _pipes(process)
            late = Event()
            timer = Timer(self.longest, lambda: (late.set(), process.kill()))
            timer.daemon = True
            timer.start()
            try:
                write_request(given, str(path.resolve()), inputs, outputs)
                found = messages(answers)
                error, content = json.loads(next(found))["error"], next(found)
            except (OSError, StopIteration):
                self.running = None
                ended = _ended(process)
                reason = f"its process ended with {ended}"
                if late.is_set():
                    reason = f"it takes more than {self.longest:g} seconds"
                raise OnnxFailedError(reason) from None
            finally:
                timer.cancel()
        if error:
            raise OnnxFailedError(error)
        return unpacked(content)

    def _process(self) -> "subprocess.Popen[bytes]":
        if self.running is None or self.running[0] != os.getpid():  # a fork has none of its own
            process = _started()
            finalize(self, _end, process, os.getpid())
            self.running = os.getpid(), process
        return self.running[1]


def _started() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "meganeura_runtime.importing.onnx.onnx_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for the process that asks
    )


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[BinaryIO, BinaryIO]:
    return cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """The exit code of a process whose pipes are closed."""
    for pipe in _pipes(process):
        with suppress(OSError):
            pipe.close()
    return process.wait()


def _end(process: "subprocess.Popen[bytes]", owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        _ended(process)


ONNX_PROCESS = OnnxProcess()
"""The one that this process has."""
