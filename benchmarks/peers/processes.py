"""Workers as processes: many prepare side by side, and stand still while one of them is timed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import cast

from benchmarks.peers.case import Case
from benchmarks.peers.contender import Precision
from benchmarks.peers.roster import Mode
from benchmarks.peers.worker import MARK

ANSWER_SECONDS = 60.0
"""The most that a worker may take to do what it is told."""
THREADS = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "2"}
"""Of a process that prepares beside others, unless the environment says otherwise."""
Message = Mapping[str, object]


@dataclass(frozen=True)
class Job:
    """A contender on a case."""

    mode: Mode
    precision: Precision
    case: Case


class Worker:
    """A process that runs a job, and what it says."""

    def __init__(self, job: Job, outputs: Path, words: Sequence[str]) -> None:
        self.job = job
        self.outputs = outputs
        self.began = monotonic()
        command = [sys.executable, "-m", "benchmarks.peers.worker", job.mode.name, job.precision]
        self._process = subprocess.Popen(
            [*command, job.case.name, "--outputs", str(outputs), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env={**THREADS, **os.environ},
        )
        self._answers: SimpleQueue[Message | None] = SimpleQueue()
        self._last = ""
        self._threads = [
            threading.Thread(target=read, daemon=True) for read in (self._listen, self._overhear)
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith(MARK):
                    self._answers.put(cast("Message", json.loads(line[len(MARK) :])))
        self._answers.put(None)

    def _overhear(self) -> None:
        assert self._process.stderr
        with self._process.stderr as lines:
            for line in lines:
                self._last = line.strip() or self._last

    def answer(self, seconds: float = ANSWER_SECONDS) -> Message | None:
        """The next thing that it says; `None` if it says nothing in time.

        A process that ends without a word has failed.
        """
        try:
            found = self._answers.get(timeout=seconds) if seconds else self._answers.get_nowait()
        except Empty:
            return None
        if found is None:
            code = self._process.wait()
            return {"failed": f"its process ended with {code}: {self._last}"}
        return found

    def ask(self, order: str) -> Message:
        """Have it do something, and wait for what comes of it."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        return self.answer() or {"failed": f"no answer to `{order}` in {ANSWER_SECONDS:.0f} s"}

    def pause(self) -> None:
        """Stand still."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """No longer stand still."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Stop it and what it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
