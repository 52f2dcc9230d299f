"""A process of our own interpreter that runs native code on what nobody trusts, and answers.

What crashes, takes all memory or never ends, ends that process alone. A question is two messages,
what is asked as JSON and its bytes; so is an answer, an error or none and its bytes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Timer
from typing import BinaryIO, cast
from weakref import finalize

from meganeura_runtime.support.messages import messages, write_message

Answer = Callable[[Mapping[str, object], bytes], bytes]
"""A function that answers a question; it may raise any error."""


LONGEST_REASON = 300
"""Characters of an error."""


class WorkerFailedError(Exception):
    """A worker refuses what it was asked; the text is its error."""


class WorkerEndedError(Exception):
    """A worker ended, or was ended after its time; the text says how."""


class WorkerProcess:
    """A process that is started when it is first needed, and anew where it ended."""

    def __init__(self, module: str, longest: float) -> None:
        self.module = module
        """The module that the process runs, which calls `answer_questions`."""
        self.longest = longest
        """Seconds after which a question that has no answer ends the process."""
        self._lock = Lock()
        self.running: tuple[int, subprocess.Popen[bytes]] | None = None
        """The process, and whose it is."""

    @property
    def is_running(self) -> bool:
        """True if the next question is for a process that has been started."""
        return self.running is not None and self.running[0] == os.getpid()

    def ask(self, asked: Mapping[str, object], content: bytes) -> bytes:
        """The answer to a question; raises `WorkerFailedError` or `WorkerEndedError`."""
        with self._lock:
            process = self._process()
            given, answers = _pipes(process)
            late = Event()
            timer = Timer(self.longest, _stop, (process, late))
            timer.daemon = True
            timer.start()
            try:
                write_message(given, json.dumps(asked).encode())
                write_message(given, content)
                given.flush()
                found = messages(answers)
                error, answer = json.loads(next(found))["error"], next(found)
            except (OSError, StopIteration):
                self.running = None
                reason = f"its process ended with {_ended(process)}"
                if late.is_set():
                    reason = f"it takes more than {self.longest:g} seconds"
                raise WorkerEndedError(reason) from None
            finally:
                timer.cancel()
        if error:
            raise WorkerFailedError(error)
        return answer

    def _process(self) -> "subprocess.Popen[bytes]":
        if self.running is None or self.running[0] != os.getpid():  # a fork has none of its own
            process = _started(self.module)
            finalize(self, _end, process, os.getpid())
            self.running = os.getpid(), process
        return self.running[1]


def _started(module: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own interpreter and a module of ours
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for the process that asks
    )


def _stop(process: "subprocess.Popen[bytes]", late: Event) -> None:
    late.set()
    process.kill()


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


def answer_questions(answer: Answer) -> None:
    """Answer until the input ends, in the process that was started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which libraries print to
    given = messages(sys.stdin.buffer)
    for asked in given:
        error, found = "", b""
        try:
            found = answer(json.loads(asked), next(given))
        except BaseException as failure:  # noqa: BLE001 - a panic of Rust is no `Exception`
            lines = str(failure).strip().splitlines() or [type(failure).__name__]
            error = lines[0][:LONGEST_REASON]
        write_message(out, json.dumps({"error": error}).encode())
        write_message(out, found)
        out.flush()
