"""Steps of whole models beside other frameworks, on the same machine in one run.

    python -m benchmarks.peers [--json FILE] [--only NAME] [--contenders NAME ...] [--small]
                               [--jobs N] [--seconds N] [--prepare FILE | --prepared FILE]

Every model runs with the same weights and inputs everywhere, and outputs are compared first: of a
training the first losses, so that gradients and updates count. A time is the median of 20 rounds of
steps, after the machine has been kept busy for a while. A contender that is missing, or fails, is a
dash in the tables, with its reason below them.

`--jobs` lets so many processes load and compile side by side; they are timed one after the other
nevertheless. Where the optimizer is not installed, optimize elsewhere first: `--prepare` writes the
optimized graphs to a file and does nothing else, and `--prepared` reads them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import cast

from benchmarks.peers.case import Case, cases, prepare
from benchmarks.peers.table import Table
from benchmarks.peers.worker import CONTENDERS, MARK, arguments

GROUPS = (
    ("ours",),
    ("eager", "compiled"),
    ("JAX",),
    ("ORT WebGPU",),
    ("TF32 compiled",),
    ("bf16 compiled",),
)
"""Who shares a process, in the order of the measurement."""
LEAVING_SECONDS = 10.0
"""The most that a process may take to end once it is done."""
Message = dict[str, object]


@dataclass(frozen=True)
class Job:
    """Contenders and cases for a process of their own."""

    contenders: tuple[str, ...]
    cases: tuple[Case, ...]


def jobs(chosen: Sequence[Case], contenders: Sequence[str]) -> Iterator[Job]:
    """A model at a batch size to a process."""
    for group in GROUPS:
        names = tuple(name for name in group if name in contenders)
        if names:
            for _, some in groupby(chosen, lambda case: (case.model.name, case.batch)):
                yield Job(names, tuple(some))


class Process:
    """A worker, and what it has said."""

    def __init__(self, job: Job, folder: str, options: argparse.Namespace) -> None:
        self.job = job
        self.ready = self.done = False
        names = [case.name for case in job.cases]
        command = [sys.executable, "-m", "benchmarks.peers.worker", *job.contenders]
        command += ["--cases", *names, "--folder", folder, "--device", options.device]
        command += ["--small"] if options.small else []
        command += ["--prepared", str(options.prepared)] if options.prepared else []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._said: list[str] = []
        self._threads = [
            threading.Thread(target=read, daemon=True) for read in (self._read, self._overhear)
        ]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._process.wait()
        self._lines.put(None)

    def _overhear(self) -> None:
        assert self._process.stderr
        with self._process.stderr as lines:
            self._said.extend(lines)

    def messages(self, until: float) -> Iterator[Message]:
        """What it says until it ends, or time is over."""
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - monotonic()))
            except Empty:
                return
            if line is None:
                return
            if line.startswith(MARK):
                yield cast("Message", json.loads(line[len(MARK) :]))

    def go(self) -> None:
        """Let it measure."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write("go\n")
            self._process.stdin.close()

    def end(self, late: str) -> str | None:
        """Stop it and what it started, if it still runs; why it is not done, if it is not."""
        assert self._process.stdin
        if self.done:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVING_SECONDS)
        code = self._process.poll()
        if code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(LEAVING_SECONDS)
        self._process.stdin.close()
        if self.done:
            return None
        if code is None:
            return late
        last = self._said[-1].strip() if self._said else ""
        return f"its process ended with {code}: {last}"


class Comparison:
    """A run: who has to measure what, and what came of it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._end = monotonic() + options.seconds
        self._machines: dict[str, str] = {}
        self.table = Table()

    def run(self, todo: Sequence[Job], folder: str) -> None:
        """Let processes prepare side by side, and measure one after the other."""
        left = iter(todo)
        while some := list(islice(left, self._options.jobs)):
            processes = [Process(job, folder, self._options) for job in some]
            until = min(self._end, monotonic() + self._options.setup_seconds)
            for process in processes:
                self._prepare(process, until)
            for process in processes:
                if not process.ready:
                    self._give_up(process, "it was not ready in time")
            for process in processes:
                if process.ready:
                    process.go()
                    self._take(process)
                    self._give_up(process, "no time was left")
            print(f"\n{self.table.markdown()}\n", flush=True)

    def _prepare(self, process: Process, until: float) -> None:
        for message in process.messages(until):
            if "ready" in message:
                process.ready = True
                return
            self._note(message)

    def _take(self, process: Process) -> None:
        for message in process.messages(self._end):
            if "done" in message:
                process.done = True
                return
            self._note(message)

    def _give_up(self, process: Process, late: str) -> None:
        reason = process.end(late)
        if reason is None:
            return
        for case in process.job.cases:
            for name in process.job.contenders:
                if name not in self.table.cells.get(case.name, {}):
                    self.table.miss(case.name, name, reason)
                    print(f"{case.name}: {name}: {reason}", flush=True)

    def _note(self, message: Message) -> None:
        match message:
            case {"case": str(case), "column": str(column), "value": float(value)}:
                self.table.put(case, column, value)
                print(f"{case}: {column} {value:.4g}", flush=True)
            case {"case": str(case), "contender": str(contender), "reason": str(reason)}:
                self.table.miss(case, contender, reason)
                print(f"{case}: {contender}: {reason}", flush=True)
            case {"machine": dict(machine)}:
                new = cast("dict[str, str]", machine)
                for name in new.keys() - self._machines.keys():
                    print(f"{name}: {new[name]}", flush=True)
                self._machines.update(new)
            case _:
                raise AssertionError(message)

    def write(self, path: Path) -> None:
        """The tables as JSON."""
        content = {"machines": self._machines, **self.table.document()}
        path.write_text(json.dumps(content, indent=1))


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, parents=[arguments()], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the tables here")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--jobs", type=int, default=1, help="processes that prepare side by side")
    parser.add_argument("--seconds", type=float, default=86400, help="stop after so long")
    parser.add_argument("--setup-seconds", type=float, default=3600, help="the most to prepare in")
    parser.add_argument("--prepare", type=Path, help="write optimized graphs and stop")
    options = parser.parse_args(words)
    chosen = cases(small=options.small, only=options.only)
    if options.prepare:
        prepare(options.prepare, chosen)
        return
    with TemporaryDirectory() as folder:
        comparison = Comparison(options)
        try:
            comparison.table.expect(case.name for case in chosen)
            comparison.run(list(jobs(chosen, options.contenders)), folder)
        finally:
            if options.json:
                comparison.write(options.json)


if __name__ == "__main__":
    main()
